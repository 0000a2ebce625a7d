"""Turns the values or colours that a mask file holds into class indices."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from hires.data.class_values import HIGHEST, ClassValues, Given, Value, colour_text
from hires.data.colours import colour_bands
from hires.data.images import mask_bands
from hires.interfaces import IGNORE, DataError, Window
from hires.settings import SettingError

_SHOWN = 5
_BAND = 128  # rows


class ClassTable:
    """Which mask values mean which class: `classes` maps names to values, in order of the class index.

    Of values that are colours a mask is read by its colours. `threshold`: a higher value counts as 255, others
    as 0. `fingerprint` names all that a mapping depends on, besides the file and its folder.
    Raises SettingError as ClassValues does.
    """

    def __init__(
        self,
        classes: Mapping[str, Given | Sequence[Given]],
        ignored: Sequence[Given],
        unlisted: str,
        *,
        background: Sequence[Given] | None = None,
        multilabel: bool = False,
        threshold: float | None = None,
    ):
        values = ClassValues(classes, ignored, background, multilabel)
        if threshold is not None and values.is_colour:
            raise SettingError("threshold", threshold, "null with classes that are colours")
        self.names, self.multilabel, self.is_colour = tuple(values.classes), multilabel, values.is_colour
        self.folders, self.threshold = values.folders(), threshold
        self._meanings, self._strict = _meanings(values), unlisted == "error"
        self._bound = [{value.folder for value in several} for several in values.classes.values()]
        self._made: tuple[str, np.ndarray] | None = None
        self.fingerprint = repr((list(self._meanings.items()), unlisted, multilabel, threshold))

    def folder_of(self, path: str) -> str:
        """The folder of the table that a mask's relative path lies below, or "". Raises DataError for two."""
        found = sorted(self.folders.intersection(PurePosixPath(path).parts[:-1]))
        if len(found) > 1:
            raise DataError(
                f"{path}: lies below {' and '.join(found)}, which both give classes; name only one in data.classes"
            )
        return found[0] if found else ""

    def classes_of(self, folder: str) -> list[int]:
        """Indices of the classes with values that are bound to a folder."""
        return [index for index, folders in enumerate(self._bound) if folder and folder in folders]

    def read(self, path: Path, folder: str = "", window: Window | None = None) -> np.ndarray:
        """A mask file, or a window of it, as `map` gives it. Raises DataError."""
        bands = colour_bands if self.is_colour else mask_bands
        return self._map(bands(path, _BAND, window), path, folder)

    def map(self, mask: np.ndarray, path: Path, folder: str = "") -> np.ndarray:
        """Raw values, or colours 0xRRGGBB, (H, W), as classes or IGNORE, uint8. Raises DataError naming `path`.

        Classes are indices, or with `multilabel` a bit field. `folder` is what `folder_of` says of the file.
        """
        bands = (mask[top : top + _BAND] for top in range(0, len(mask), _BAND))
        return self._map(bands, path, folder)

    def _map(self, bands: Iterable[np.ndarray], path: Path, folder: str) -> np.ndarray:
        lookup, mapped = self._lookup(folder), []
        unlisted: Counter[int] = Counter()
        for values in self._entries(bands):  # in bands: numpy's indices take eight bytes a pixel
            mapped.append(lookup[values if self.is_colour else _clipped(values)])
            if self._strict:
                unlisted.update(self._unlisted(values, mapped[-1], folder))
        if unlisted:
            self._refuse(unlisted, path)
        return np.concatenate(mapped)

    def _entries(self, bands: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        for band in bands:
            yield band if self.threshold is None else np.where(band > self.threshold, np.uint8(255), np.uint8(0))

    def _lookup(self, folder: str) -> np.ndarray:
        """What every value means in a folder; the last entry of a table of numbers stands for all others."""
        if self._made is None or self._made[0] != folder:
            lookup = np.full(2**24 if self.is_colour else HIGHEST + 2, IGNORE, np.uint8)
            for where in ("", folder):  # what is bound to the folder goes before what holds everywhere
                for value, meaning in self._meanings.items():
                    if value.folder == where:
                        lookup[value.number] = self._joined(value, meaning)
            self._made = folder, lookup
        return self._made[1]

    def _joined(self, value: Value, meaning: int) -> int:
        """With several labels a pixel, a value bound to a folder has its classes of everywhere, too."""
        general = self._meanings.get(value._replace(folder=""), IGNORE)
        return meaning | general if self.multilabel and IGNORE not in (meaning, general) else meaning

    def _unlisted(self, values: np.ndarray, mapped: np.ndarray, folder: str) -> dict[int, int]:
        suspects = values[mapped == IGNORE]
        if not len(suspects):
            return {}
        found, counts = np.unique(suspects, return_counts=True)
        listed = {value.number for value in self._meanings if value.folder in ("", folder)}
        return {int(v): int(n) for v, n in zip(found, counts, strict=True) if int(v) not in listed}

    def _refuse(self, counts: Counter[int], path: Path) -> None:
        values = sorted(counts, key=lambda value: (-counts[value], value))
        shown = colour_text if self.is_colour else str
        listed = ", ".join(f"{shown(value)} ({counts[value]} px)" for value in values[:_SHOWN])
        more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
        raise DataError(
            f"{path}: mask {'colour' if self.is_colour else 'value'}(s) {listed}{more} are in no class; add them "
            "to data.classes or data.ignore_values, or set data.unlisted=ignore"
        )


def _meanings(values: ClassValues) -> dict[Value, int]:
    """What each value becomes: an index, the bits of its classes, 0 for none of them, or IGNORE."""
    meanings = {**dict.fromkeys(values.ignored, IGNORE), **dict.fromkeys(values.background, 0)}
    for index, several in enumerate(values.classes.values()):
        for value in several:
            meanings[value] = meanings.get(value, 0) | 1 << index if values.multilabel else index
    return meanings


def _clipped(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "u" and values.itemsize <= 2:
        return values
    wide = values.astype(np.int64)  # of narrow ones HIGHEST + 1 would be no value
    return np.where((wide < 0) | (wide > HIGHEST), HIGHEST + 1, wide)
