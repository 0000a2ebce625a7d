"""Where the pixels of each class are, so that training can look at rare classes more often."""

import logging
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from hires.data.settings import SegmentationSource
from hires.interfaces import IGNORE, DataError
from hires.ops.labels import holds
from hires.settings import SettingError

log = logging.getLogger(__name__)

_SAMPLES = 2000  # pixels kept per image and class
_SAMPLES_IN_ALL = 2**23  # 64 MiB of coordinates


def class_pixels(source: SegmentationSource) -> np.ndarray:
    """Pixels of each class over all images of a source, (classes,) int64; holds one mask at a time.

    With several labels a pixel, it counts for each of them.
    """
    pixels = np.zeros(len(source.classes), np.int64)
    for image in range(len(source)):
        rows, _ = _row_counts(_mask(source, image), len(pixels), source.multilabel)
        pixels += rows.sum(axis=0)
    return pixels


class ClassIndex:
    """Pixel counts and sampled pixels of every image and class, in packed arrays.

    counts: (images, classes) int64 pixels; classes in focus: `focus`, class indices. Holds one mask at a
    time while it is built; the same masks give the same index.
    """

    def __init__(self, source: SegmentationSource, focus_classes: Sequence[str] | None = None):
        images, classes = len(source), len(source.classes)
        check_names(focus_classes, source.classes)
        most = int(np.clip(_SAMPLES_IN_ALL // (images * classes), 16, _SAMPLES))
        self.counts = np.zeros((images, classes), np.int64)
        samples, counted = [], 0
        for image in range(images):
            mask, rng = _mask(source, image), np.random.default_rng(image)
            rows, valid = _row_counts(mask, classes, source.multilabel)
            self.counts[image] = rows.sum(axis=0)
            counted += valid
            samples.append(_sample(mask, rows, source.multilabel, most, rng))
        self._pixels = np.concatenate(samples)
        lengths = np.minimum(self.counts, most).ravel()
        self._offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.focus = _focus(self.counts, source.classes, focus_classes, source.multilabel)
        self._holders = np.flatnonzero(self.counts[:, self.focus].any(axis=1))
        self._report(source.classes, counted)

    def __bool__(self) -> bool:
        """Whether any image holds a class in focus."""
        return len(self._holders) > 0

    def pick(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """(image, y, x): uniformly an image with a focus class, one of those, one of its pixels."""
        image = rng.choice(self._holders)
        class_index = rng.choice(self.focus[self.counts[image, self.focus] > 0])
        slot = image * self.counts.shape[1] + class_index
        y, x = self._pixels[rng.integers(self._offsets[slot], self._offsets[slot + 1])]
        return int(image), int(y), int(x)

    def _report(self, names: Sequence[str], counted: int) -> None:
        pixels = self.counts.sum(axis=0)
        for index, name in enumerate(names):
            share, held = pixels[index] / max(1, counted), np.count_nonzero(self.counts[:, index])
            mark = ", in focus" if index in self.focus else ""
            log.info("class %s: %.4f%% of the pixels, in %d image(s)%s", name, 100 * share, held, mark)
        if not counted:
            raise DataError("every training pixel is ignored; check data.classes and data.ignore_values")
        if not self:
            log.info("no image holds a class in focus: all windows are placed at random")


def _mask(source: SegmentationSource, image: int) -> np.ndarray:
    """The mask of an image; where broken files are skipped and this is one, a single pixel that does not count."""
    try:
        return source.mask(image)
    except DataError as error:
        if not getattr(source, "skips", False):
            raise
        log.warning("%s; left out, by data.on_error=skip", error)
        return np.full((1, 1), IGNORE, np.uint8)


def check_names(wanted: Sequence[str] | None, names: Sequence[str]) -> None:
    """Raises SettingError for classes in focus that the data does not have."""
    for name in wanted or ():
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError("data.window.focus_classes", name, f"{', '.join(names)}{hint}")


def _focus(counts: np.ndarray, names: Sequence[str], wanted: Sequence[str] | None, multilabel: bool) -> np.ndarray:
    if wanted is not None:
        return np.array([names.index(name) for name in wanted], np.int64)
    if multilabel:  # what is everywhere belongs to no class there
        return np.arange(len(names))
    return np.delete(np.arange(len(names)), counts.sum(axis=0).argmax())


def _members(classes: int) -> np.ndarray:
    """Which bit fields show which class: (256, classes) of 0 and 1, int64."""
    values = np.arange(256, dtype=np.uint8)
    return np.stack([holds(values, index, True) for index in range(classes)], axis=1).astype(np.int64)


def _row_counts(mask: np.ndarray, classes: int, multilabel: bool) -> tuple[np.ndarray, int]:
    """Pixels of each class in every row, (H, classes), and those of the mask that are not IGNORE."""
    if not multilabel:  # bincount takes eight bytes a pixel of what it is given: row by row
        rows = np.stack([np.bincount(row, minlength=classes)[:classes] for row in mask])
        return rows, int(rows.sum())
    values = np.stack([np.bincount(row, minlength=256) for row in mask])
    return values @ _members(classes), int(values[:, :IGNORE].sum())


def _sample(
    mask: np.ndarray, rows: np.ndarray, multilabel: bool, most: int, rng: np.random.Generator
) -> np.ndarray:
    """At most `most` (y, x) int32 of each class in turn, without repeats; `rows` (H, classes) are their pixels.

    Goes row by row, so that memory does not grow with the image.
    """
    counts = rows.sum(axis=0)
    pixels = []
    for class_index in np.flatnonzero(counts):
        ends = np.cumsum(rows[:, class_index])
        count = int(counts[class_index])
        ranks = np.sort(rng.choice(count, min(most, count), replace=False, shuffle=False))
        ys = np.searchsorted(ends, ranks, side="right")
        for y in np.unique(ys):
            before = ends[y] - rows[y, class_index]
            xs = np.flatnonzero(holds(mask[y], int(class_index), multilabel))[ranks[ys == y] - before]
            pixels.append(np.stack([np.full(len(xs), y), xs], axis=1).astype(np.int32))
    return np.concatenate(pixels) if pixels else np.zeros((0, 2), np.int32)
