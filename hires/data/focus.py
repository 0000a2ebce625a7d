"""Where the pixels of each class are, so that training can look at rare classes more often."""

import logging
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np

from hires.data.settings import SegmentationSource
from hires.settings import SettingError

log = logging.getLogger(__name__)

_SAMPLES = 2000  # pixels kept per image and class
_SAMPLES_IN_ALL = 2**23  # 64 MiB of coordinates


class ClassIndex:
    """Pixel counts and sampled pixels of every image and class, in packed arrays.

    counts: (images, classes) int64 pixels; classes in focus: `focus`, class indices. Holds one mask at a
    time while it is built; the same masks give the same index.
    """

    def __init__(self, source: SegmentationSource, focus_classes: Sequence[str] | None = None):
        images, classes = len(source), len(source.classes)
        _check_names(focus_classes, source.classes)
        most = int(np.clip(_SAMPLES_IN_ALL // (images * classes), 16, _SAMPLES))
        self.counts = np.zeros((images, classes), np.int64)
        samples = []
        for image in range(images):
            counts, pixels = _sample(source.mask(image), classes, most, np.random.default_rng(image))
            self.counts[image] = counts
            samples.append(pixels)
        self._pixels = np.concatenate(samples)
        lengths = np.minimum(self.counts, most).ravel()
        self._offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.focus = _focus(self.counts, source.classes, focus_classes)
        self._holders = np.flatnonzero(self.counts[:, self.focus].any(axis=1))
        self._report(source.classes)

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

    def _report(self, names: Sequence[str]) -> None:
        pixels = self.counts.sum(axis=0)
        for index, name in enumerate(names):
            share, held = pixels[index] / max(1, pixels.sum()), np.count_nonzero(self.counts[:, index])
            mark = ", in focus" if index in self.focus else ""
            log.info("class %s: %.4f%% of the pixels, in %d image(s)%s", name, 100 * share, held, mark)
        if not self:
            log.info("no image holds a class in focus: all windows are placed at random")


def _check_names(wanted: Sequence[str] | None, names: Sequence[str]) -> None:
    for name in wanted or ():
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError("data.window.focus_classes", name, f"{', '.join(names)}{hint}")


def _focus(counts: np.ndarray, names: Sequence[str], wanted: Sequence[str] | None) -> np.ndarray:
    if wanted is not None:
        return np.array([names.index(name) for name in wanted], np.int64)
    return np.delete(np.arange(len(names)), counts.sum(axis=0).argmax())


def _sample(mask: np.ndarray, classes: int, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pixels per class, and at most `most` (y, x) int32 of each class in turn, without repeats.

    Goes row by row, so that memory does not grow with the image.
    """
    rows = np.stack([np.bincount(row, minlength=classes)[:classes] for row in mask])  # (H, classes)
    counts = rows.sum(axis=0)
    pixels = []
    for class_index in np.flatnonzero(counts):
        ends = np.cumsum(rows[:, class_index])
        count = int(counts[class_index])
        ranks = np.sort(rng.choice(count, min(most, count), replace=False, shuffle=False))
        ys = np.searchsorted(ends, ranks, side="right")
        for y in np.unique(ys):
            before = ends[y] - rows[y, class_index]
            xs = np.flatnonzero(mask[y] == class_index)[ranks[ys == y] - before]
            pixels.append(np.stack([np.full(len(xs), y), xs], axis=1).astype(np.int32))
    return counts, np.concatenate(pixels) if pixels else np.zeros((0, 2), np.int32)
