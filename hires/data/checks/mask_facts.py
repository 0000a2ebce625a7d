"""What is in a mask: its values, its classes, how narrow its structures are; read in bands of rows."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from hires.data.checks.widths import BLOCK, LIMITS, narrow_pixels
from hires.data.class_values import ClassValues
from hires.data.colours import colour_bands, palette_header
from hires.data.images import mask_bands
from hires.data.mask_folder import MaskFolder
from hires.interfaces import IGNORE
from hires.ops.labels import holds

_MOST_VALUES = 4096  # of one mask: more of them are colours of a photograph
_BLOCKS = 16  # of a mask, in which widths are measured
_EXACT = 2**23  # pixels that are counted at once
_OWN_BLOCKS = 4  # the same for each class, where those are not enough


@dataclass(frozen=True)
class MaskFacts:
    """A mask that was read to its last pixel."""

    size: tuple[int, int]
    values: dict[int, int]  # pixels of every raw value, or colour 0xRRGGBB
    unlisted: dict[int, int]  # those that no list of the settings names
    pixels: np.ndarray  # (classes,) int64
    measured: np.ndarray  # (classes,) float64 pixels in which widths were measured
    narrow: np.ndarray  # (classes, LIMITS) float64 of them in structures narrower than each
    palette: dict[int, int] | None  # colour 0xRRGGBB of every value that occurs, in palette files
    folder: str  # of the class table


class MaskReader:
    """Reads masks by the class table of their settings; values that it does not name count as ignored."""

    def __init__(self, settings: MaskFolder):
        self.root = settings.root_path()
        self.table = replace(settings, unlisted="ignore").table()
        given = ClassValues(
            settings.classes, settings.ignore_values, settings.background_values, settings.multilabel
        )
        self._listed = {*(v for several in given.classes.values() for v in several), *given.ignored}
        self._listed |= set(given.background)

    def __call__(self, path: str) -> MaskFacts:
        """What a mask file below the root holds. Raises DataError."""
        file, folder = self.root / path, self.table.folder_of(path)
        counts, widths = Counter[int](), Widths(len(self.table.names), self.table.multilabel)
        pixels, rows, width = np.zeros(256, np.int64), 0, 0
        bands = (colour_bands if self.table.is_colour else mask_bands)(file, BLOCK)
        for band in bands:
            counts.update(_counted(band))
            mapped = self.table.map(band, file, folder)
            pixels += histogram(mapped)
            widths.add(mapped)
            rows, width = rows + len(band), band.shape[1]
        kept = dict(counts.most_common(_MOST_VALUES))
        return MaskFacts(
            *((rows, width), kept, self._unlisted(kept, folder)),
            *(of_classes(pixels, len(self.table.names), self.table.multilabel), widths.measured, widths.narrow),
            *(_palette(file, kept, self.table.is_colour), folder),
        )

    def _unlisted(self, counts: dict[int, int], folder: str) -> dict[int, int]:
        listed = {value.number for value in self._listed if value.folder in ("", folder)}
        if self.table.threshold is not None:  # every value becomes 0 or 255
            return {}
        return {value: number for value, number in counts.items() if value not in listed}


def of_classes(pixels: np.ndarray, classes: int, multilabel: bool) -> np.ndarray:
    """(classes,) pixels of each class, of those of each mapped value, (256,)."""
    if not multilabel:
        return pixels[:classes]
    values = np.arange(256, dtype=np.uint8)
    return np.array([pixels[holds(values, index, True)].sum() for index in range(classes)])


def _counted(band: np.ndarray) -> dict[int, int]:
    """How often each value occurs; by runs, since masks have long ones."""
    if band.dtype == np.uint8:
        counts = histogram(band)
        return {int(value): int(counts[value]) for value in np.flatnonzero(counts)}
    flat = band.ravel()
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    lengths = np.diff(np.append(starts, len(flat)))
    values, homes = np.unique(flat[starts], return_inverse=True)
    counts = np.bincount(homes, weights=lengths).astype(np.int64)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def histogram(values: np.ndarray) -> np.ndarray:
    """(256,) int64 number of each value of (H, W) uint8; numpy's would take eight bytes a pixel."""
    rows = max(1, _EXACT // values.shape[1])  # OpenCV counts in float32
    parts = (np.ascontiguousarray(values[top : top + rows]) for top in range(0, len(values), rows))
    counts = (cv2.calcHist([part], [0], None, [256], [0, 256]).ravel() for part in parts)
    return np.sum([part.astype(np.int64) for part in counts], axis=0)


def _palette(file: Path, values: dict[int, int], is_colour: bool) -> dict[int, int] | None:
    """The colours of a palette, by their indices; only those that occur, as far as that is known."""
    palette = palette_header(file)
    if palette is None:
        return None
    colours = [int.from_bytes(palette[at : at + 3], "big") for at in range(0, len(palette), 3)]
    if is_colour:
        return {index: colour for index, colour in enumerate(colours) if colour in values}
    return {index: colours[index] if index < len(colours) else 0 for index in sorted(values)}


class Widths:
    """Adds up `narrow_pixels` of every class over blocks of a mask."""

    def __init__(self, classes: int, multilabel: bool):
        self.measured, self.narrow = np.zeros(classes), np.zeros((classes, len(LIMITS)))
        self._multilabel, self._seen, self._done = multilabel, 0, np.zeros(classes, int)

    def add(self, mapped: np.ndarray) -> None:
        """Looks at some blocks of a band of at most BLOCK rows."""
        for left in range(0, mapped.shape[1], BLOCK):
            block = np.ascontiguousarray(mapped[:, left : left + BLOCK])
            chosen, self._seen = self._is_chosen(), self._seen + 1
            for index in self._present(block):
                if chosen or self._done[index] < _OWN_BLOCKS:
                    shown = holds(block, index, self._multilabel).astype(np.uint8)
                    self.narrow[index] += narrow_pixels(shown)
                    self.measured[index] += int(shown.sum())
                    self._done[index] += 1

    def _is_chosen(self) -> bool:
        """Block 0, 1, ... 15, 17, 20, ...: fewer and fewer of a mask whose size is not known before."""
        return self._seen % (1 + self._seen // _BLOCKS) == 0

    def _present(self, block: np.ndarray) -> list[int]:
        counts = histogram(block)
        if not self._multilabel:
            whole = block.size
            return [i for i in range(len(self.measured)) if 0 < counts[i] < whole]
        used = np.flatnonzero(counts[:IGNORE]).astype(np.uint8)
        return [i for i in range(len(self.measured)) if holds(used, i, True).any()]
