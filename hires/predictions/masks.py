"""Files of a segmentation: masks in bands of rows, probabilities, overlays."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from hires.data.mask_values import MaskValues
from hires.engine.files import whole_file
from hires.interfaces import ConfigError, Normalization
from hires.ops.labels import holds
from hires.predictions.georeference import geo_tags, georeference
from hires.predictions.inputs import Input
from hires.predictions.png import PngRows
from hires.predictions.record import is_made
from hires.predictions.rendering import rendered, shrinking, tint, write_jpeg
from hires.predictions.settings import PredictionSettings
from hires.predictions.tiff import Tag, TiffTiles
from hires.visualize.colours import class_colours, hex_colours, is_ground

Size = tuple[int, int]
_OVERLAY_ROWS = 256  # tinted at a time


class Rows(Protocol):
    """A file that takes full rows."""

    def add(self, rows: np.ndarray) -> None: ...


class Band(NamedTuple):
    """Where rows of an image go: which of its files, and what of a part is written there."""

    file: Rows
    of: Callable[[Any], np.ndarray]


class MaskWriter:
    """Writes what a segmentation says of images below `out`: `masks/`, `probabilities/`, `overlays/`.

    `given` are the values of the data set's own masks, if it has some. Raises ConfigError where they are asked
    for and not there.
    """

    def __init__(
        self,
        out: Path,
        names: Sequence[str],
        settings: PredictionSettings,
        normalization: Normalization,
        *,
        multilabel: bool,
        given: MaskValues | None,
    ):
        self.out, self.names, self.settings, self.normalization = out, names, settings, normalization
        self.multilabel, self.since = multilabel, 0  # older files do not count, ns
        self.colours = class_colours(names, given.numbers if given and given.are_colours else None)
        self.folders = _folder_names(names)
        self.values = self._values(given)

    def _values(self, given: MaskValues | None) -> np.ndarray | None:
        """What stands in a mask for each class index; None for the index itself."""
        if self.settings.values == "index":
            return None
        if given is None or self.multilabel:
            why = "have several labels a pixel" if self.multilabel else "are not read from mask files"
            raise ConfigError(f"values: got data, allowed: index, since the masks of the run's data {why}")
        if given.are_colours:
            return None  # the palette has them
        return np.array(given.numbers, np.uint8 if max(given.numbers) < 256 else np.uint16)

    def table(self) -> dict[str, Any]:
        """What classes.json says of the files."""
        values = range(len(self.names)) if self.values is None else self.values.tolist()
        colours = hex_colours(self.colours)
        rows: list[dict[str, Any]] = [
            {"index": index, "name": name, "colour": colours[index], "value": value}
            for index, (name, value) in enumerate(zip(self.names, values, strict=True))
        ]
        if self.multilabel:
            rows = [{**row, "value": 255, "folder": f"masks/{self.folders[row['index']]}"} for row in rows]
        return {"kind": "masks", "multilabel": self.multilabel, "classes": rows}

    def kinds(self) -> list[str]:
        """The folders below `out` that are written to."""
        wanted = {"masks": True, "probabilities": self.settings.probabilities, "overlays": self.settings.overlays}
        return [name for name, is_wanted in wanted.items() if is_wanted]

    def depends(self) -> dict[str, float]:
        """What its files depend on beside the settings."""
        return {}

    def done(self, item: Input) -> bool:
        """Whether the image has all its masks, which appear last."""
        return all(is_made(path, self.since, item.path) for path in self._mask_paths(item, self._as_tiff(item)))

    def write(self, item: Input, image: Any, parts: Iterator[Any], told: Callable[[float], None]) -> None:
        """Writes the files of an image, all or none; `told` is the share that is done.

        Raises DataError for images that turn out to be broken, OSError for files that cannot be written.
        """
        size: Size = image.shape[:2]
        as_tiff = self._as_tiff(item)
        tags = _tags(item) if as_tiff or self.settings.probabilities else []
        with ExitStack() as opened:
            bands = list(self._masks(self._mask_paths(item, as_tiff), size, tags, opened))
            if self.settings.probabilities:
                bands.append(self._probabilities(item, size, tags, opened))
            if self.settings.overlays:
                overlay = opened.enter_context(self._overlay(item, image))
                bands.append(Band(overlay, lambda part: part.labels))
            for part in parts:
                for band in bands:
                    band.file.add(band.of(part))
                told((part.top + len(part.labels)) / size[0])

    def finish(self, items: Sequence[Input]) -> None:
        """Nothing is left to do when all images are done."""

    def _as_tiff(self, item: Input) -> bool:
        said = self.settings.format
        return said == "tiff" or (said == "auto" and georeference(item.path) is not None)

    def _mask_paths(self, item: Input, as_tiff: bool) -> list[Path]:
        folder, ending = self.out / "masks", ".tif" if as_tiff else ".png"
        folders = [folder / name for name in self.folders] if self.multilabel else [folder]
        return [each / f"{item.output}{ending}" for each in folders]

    def _masks(self, paths: Sequence[Path], size: Size, tags: list[Tag], opened: ExitStack) -> Iterator[Band]:
        for index, path in enumerate(paths):
            file = opened.enter_context(whole_file(path))
            if self.multilabel:
                palette, dtype = None, np.dtype(np.uint8)
            else:
                palette = self.colours if self.values is None else None
                dtype = np.dtype(np.uint8) if self.values is None else self.values.dtype
            rows: Any
            if path.suffix == ".tif":
                rows = _OnePlane(opened.enter_context(TiffTiles(file, size, dtype, palette=palette, tags=tags)))
            else:
                rows = opened.enter_context(PngRows(file, size, dtype, palette))
            yield Band(rows, self._written(index))

    def _written(self, index: int) -> Callable[[Any], np.ndarray]:
        """What of a part goes into a mask: with several labels a pixel that of the class `index`."""
        values = self.values
        if self.multilabel:
            return lambda part: holds(part.labels, index, True) * np.uint8(255)
        return (lambda part: part.labels) if values is None else (lambda part: values[part.labels])

    def _probabilities(self, item: Input, size: Size, tags: list[Tag], opened: ExitStack) -> Band:
        dtype = np.dtype("float16" if self.settings.probabilities == "float16" else "uint8")
        scale = 255 if dtype == np.uint8 else 1
        file = opened.enter_context(whole_file(self.out / "probabilities" / f"{item.output}.tif"))
        rows = TiffTiles(
            file,
            size,
            dtype,
            planes=len(self.names),
            names=self.names,
            description=f"probability x {scale}" if scale > 1 else "probability, 0 to 1",
            tags=tags,
        )

        def stored(part: Any) -> np.ndarray:
            values = part.probabilities.float()
            return (values * scale).round().byte().cpu().numpy() if scale > 1 else values.half().cpu().numpy()

        return Band(opened.enter_context(rows), stored)

    def _overlay(self, item: Input, image: Any) -> "AbstractContextManager[Any]":
        return _Overlay(self, self.out / "overlays" / f"{item.output}.jpg", image)


class _OnePlane:
    """Rows (n, W) of a TIFF with one plane."""

    def __init__(self, tiff: TiffTiles):
        self._tiff = tiff

    def add(self, rows: np.ndarray) -> None:
        self._tiff.add(rows[None])


class _Overlay(AbstractContextManager["_Overlay"]):
    """Keeps every n-th row and column of a mask, and mixes its colours into the image at the end."""

    def __init__(self, writer: MaskWriter, path: Path, image: Any):
        self._writer, self._path, self._image = writer, path, image
        self._factor = shrinking(image.shape[:2], writer.settings.overlay_size)
        self._kept: list[np.ndarray] = []
        self._rows = 0

    def add(self, rows: np.ndarray) -> None:
        self._kept.append(rows[-self._rows % self._factor :: self._factor, :: self._factor].copy())
        self._rows += len(rows)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            return
        labels, writer = np.concatenate(self._kept), self._writer
        picture = rendered(self._image, writer.normalization, self._factor)
        for index, name in enumerate(writer.names):
            if not writer.multilabel and is_ground(name):
                continue
            for top in range(0, len(labels), _OVERLAY_ROWS):
                rows = slice(top, top + _OVERLAY_ROWS)
                where = holds(labels[rows], index, writer.multilabel)
                if where.any():
                    tint(picture[rows], where, writer.colours[index])
        write_jpeg(self._path, picture)


def _tags(item: Input) -> list[Tag]:
    """Those that say where an image lies, if it says so."""
    return geo_tags(item.path) if georeference(item.path) is not None else []


def _folder_names(names: Sequence[str]) -> list[str]:
    """A name for the folder of each class, without what file systems do not take; all different."""
    plain = [re.sub(r"[^\w.-]+", "_", name).strip(".") or "class" for name in names]
    lower = [name.lower() for name in plain]
    return [f"{name}_{i}" if lower.count(name.lower()) > 1 else name for i, name in enumerate(plain)]
