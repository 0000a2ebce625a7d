"""Masks of classes, each united of the files that show parts of them."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.cache import Cache
from hires.data.drawn_masks import Paint
from hires.data.file_source import LARGE, cropped
from hires.data.images import image_info, mask_bands, rgb_bands
from hires.data.mask_source import MaskedImages
from hires.data.pixels import PixelRules
from hires.interfaces import DataError, Window

_BAND = 512  # rows


class Part(NamedTuple):
    """A mask file and the class that it shows."""

    label: int  # class index, the background not counted
    path: str  # relative to the root


class PartSource(MaskedImages):
    """A SegmentationSource of mask files that show one class each, painted in their order, later ones on top."""

    def __init__(
        self,
        root: Path,
        images: Sequence[str],
        parts: Sequence[Sequence[Part]],
        paint: Paint,
        threshold: float,
        rules: PixelRules,
        cache: Cache,
    ):
        super().__init__(root, images, rules, cache)
        self.classes, self.multilabel = paint.names, paint.multilabel
        self.paint, self.threshold = paint, threshold
        self._files = np.array([part.path for several in parts for part in several])
        self._labels = np.array([part.label for several in parts for part in several], np.int64)
        self._offsets = np.cumsum([0, *map(len, parts)])
        self._windowed = np.full(len(images), -1, np.int8)  # whether all files of an image are; -1: not looked at

    def labels_read(self) -> tuple[list[str], tuple[np.ndarray, ...]]:
        return self._files.tolist(), (self._labels, self._offsets)

    def parts(self, index: int) -> list[Part]:
        """The files of an image, in the order in which they are painted."""
        rows = slice(self._offsets[index], self._offsets[index + 1])
        return [
            Part(int(label), str(path)) for label, path in zip(self._labels[rows], self._files[rows], strict=True)
        ]

    def mask(self, index: int, window: Window | None = None) -> np.ndarray:
        whole, variant = Window(0, 0, *self.size(index)), self._variant_of_mask(index)
        if window is not None and self._mask_by_windows(index, variant):
            return self._united(index, window)
        mask = self._cache.load(self.path(index), lambda _: self._united(index, whole), variant)
        return mask if window is None else cropped(mask, window)

    def is_windowed(self, index: int) -> bool:
        """Whether windows of all files of an image can be decoded alone. Raises DataError."""
        if self._windowed[index] < 0:
            self._windowed[index] = all(image_info(self.root / part.path).windowed for part in self.parts(index))
        return bool(self._windowed[index])

    def _mask_by_windows(self, index: int, variant: str) -> bool:
        count = math.prod(self.size(index))
        if not self._cache.takes(self.path(index), count, variant):
            return True
        return count > LARGE and self.is_windowed(index)

    def _variant_of_mask(self, index: int) -> str:
        """Names all that a mask depends on, besides the image file."""
        files = [(part, _stamp(self.root / part.path)) for part in self.parts(index)]
        return repr(("parts", self.paint.fingerprint, self.threshold, files))

    def _united(self, index: int, window: Window) -> np.ndarray:
        mask = np.full((window.height, window.width), self.paint.ground, np.uint8)
        for label, name in self.parts(index):
            path, top = self.root / name, 0
            self._check_size(path, index)
            for band in _bands(path, window):
                part = mask[top : top + len(band)]
                over = self.paint.over(part, label, False)
                np.copyto(part, np.asarray(over, np.uint8), where=band > self.threshold)
                top += len(band)
        return mask

    def _check_size(self, path: Path, index: int) -> None:
        size, wanted = image_info(path).size, self.size(index)
        if size != wanted:
            raise DataError(
                f"{path}: mask is {size[0]}x{size[1]} (height x width), its image {self.path(index)} "
                f"{wanted[0]}x{wanted[1]}; make them equal"
            )


def _bands(path: Path, window: Window) -> Iterator[np.ndarray]:
    """A window of a mask in bands of rows, (rows, W): its values, or of colours the brightest of the three."""
    if image_info(path).bands == 1:
        yield from mask_bands(path, _BAND, window)
    else:
        yield from (band.max(axis=2) for band in rgb_bands(path, _BAND, window))


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file, as the cache tells files apart; zeros of one that is not there."""
    try:
        stat = path.stat()
    except OSError:  # reading says what is wrong
        return 0, 0
    return stat.st_size, stat.st_mtime_ns
