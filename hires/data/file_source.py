"""The images of one split as files: their names, sizes, types and pixels."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from hires.data.cache import Cache
from hires.data.formats.image_file import limit_pixels
from hires.data.images import image_info, image_size, read_image
from hires.data.pixels import PixelRules
from hires.data.windowed_image import WindowedImage
from hires.interfaces import DataError, Window
from hires.ops.windows import Size

LARGE = 2**28
"""Bytes above which an image is not decoded as a whole if windows of it can be: as large as four 8-bit colour
photographs of 20 megapixels, which any machine can hold in every worker."""
_HEADERS = 20_000  # files at most that are looked at before a training: a few seconds on a local disk
_GRID = 4  # of a large image, as many windows across and down are looked at for its statistics


class FileSource:
    """Image files below `root`, by index; decoded files go through the cache.

    `images`: paths relative to the root. `sizes`: (N, 2) int64 height and width, if they are known.
    """

    def __init__(
        self,
        root: Path,
        images: Sequence[str],
        rules: PixelRules,
        cache: Cache,
        sizes: np.ndarray | None = None,
    ):
        self.root, self.rules, self._cache = root, rules, cache
        limit_pixels(rules.max_pixels)
        # arrays, not lists: worker processes share their pages, and counting references copies none
        self._images = np.array(images)
        self._sizes = np.zeros((len(images), 2), np.int64) if sizes is None else sizes
        self._kinds = np.zeros(len(images), [("bands", "i4"), ("alpha", "?"), ("windowed", "?"), ("torn", "?")])

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        limit_pixels(self.rules.max_pixels)  # in another process

    def __len__(self) -> int:
        return len(self._images)

    def name(self, index: int) -> str:
        return str(self._images[index])

    def path(self, index: int) -> Path:
        return self.root / self.name(index)

    def labels_read(self) -> tuple[Sequence[str], Sequence[np.ndarray]]:
        """What the truth of the images is known by before any is decoded: label files below the root, arrays."""
        return (), ()

    def size(self, index: int) -> tuple[int, int]:
        if not self._sizes[index, 0]:
            self._sizes[index] = image_size(self.path(index))
        height, width = self._sizes[index]
        return int(height), int(width)

    @cached_property
    def dtype(self) -> np.dtype:
        """Of the pixels of every image: that of the first one whose header can be read. Raises DataError."""
        for index in range(len(self)):
            try:
                return image_info(self.path(index)).dtype
            except DataError:
                if index == len(self) - 1:
                    raise
        return np.dtype(np.uint8)  # of no images

    @property
    def skips(self) -> bool:
        """Whether broken files are passed over where all are read."""
        return self.rules.skip

    @property
    def channels(self) -> int:
        """Of the images as they are shown."""
        return self.rules.shown_channels

    def pixels(self, index: int, window: Window | None) -> np.ndarray:
        """(H, W, C) of `dtype` of the window, or of all. Raises DataError.

        All is maybe a read-only memory map, or of an image that is too large for that what gives slices of it.
        """
        path = self.path(index)
        if window is None and self._is_large(index):
            shape = (*self.size(index), self.channels)
            image: Any = WindowedImage(partial(self.pixels, index), shape, self.dtype, LARGE)
            return image
        if window is not None and self._by_windows(index):
            image = self._reader(index)(path, window)
        else:
            image = self._cached(index, window)
        self._check_type(image.dtype, path)
        return self.rules.shown(image, path)

    def check_headers(self) -> None:
        """Raises DataError for the first file with other bands than wanted, or pixels of another type.

        Of very many files some are looked at, evenly; none where broken ones are passed over.
        """
        if self.skips:
            return
        for index in range(0, len(self), math.ceil(len(self) / _HEADERS) or 1):
            path = self.path(index)
            info = image_info(path)
            self.rules.check(info, path)
            self._check_type(info.dtype, path)

    def _check_type(self, dtype: np.dtype, path: Path) -> None:
        if dtype != self.dtype:
            raise DataError(
                f"{path}: has {dtype} pixels, but {self.path(0)} has {self.dtype}; save all images of a "
                "data set with pixels of one type"
            )

    def _cached(self, index: int, window: Window | None) -> np.ndarray:
        path, read = self.path(index), self._reader(index)
        try:
            image = self._cache.load(path, read, self._variant(index))
        except DataError:
            if window is None or not self._kind(index)["windowed"]:
                raise
            # windows beside the damage are what they are without a cache
            self._kinds[index]["torn"] = True
            return read(path, window)
        return image if window is None else cropped(image, window)

    def some_pixels(self, index: int, most: int) -> np.ndarray:
        """About `most` pixels (n, C) at most, evenly from all over an image, always the same. Raises DataError."""
        height, width = self.size(index)
        if self._is_large(index):
            parts = [self.pixels(index, window) for window in _spread((height, width), most)]
            return np.concatenate([part.reshape(-1, self.channels) for part in parts])
        step = math.ceil(math.sqrt(height * width / most))
        rows, columns = (slice(min(step // 2, (side - 1) // 2), None, step) for side in (height, width))
        return self.pixels(index, None)[rows, columns].reshape(-1, self.channels)

    def _by_windows(self, index: int) -> bool:
        """Whether windows are read from the file itself, without decoding it as a whole.

        Of a memory map they are read faster than from any file, so that this is for images that are too large to
        be decoded at once, and for those that the cache has no room for.
        """
        if not self._kind(index)["windowed"]:
            return False
        if self._kind(index)["torn"]:
            return True
        return self._is_large(index) or not self._cache.takes(
            self.path(index), self._bytes(index), self._variant(index)
        )

    def _is_large(self, index: int) -> bool:
        return bool(self._kind(index)["windowed"]) and self._bytes(index) > LARGE

    def _reader(self, index: int) -> Callable[..., np.ndarray]:
        return partial(read_image, alpha=True) if self._kind(index)["alpha"] else read_image

    def _variant(self, index: int) -> str:
        return "alpha" if self._kind(index)["alpha"] else ""

    def _bytes(self, index: int) -> int:
        """Of all bands of an image that are read."""
        return math.prod(self.size(index)) * int(self._kind(index)["bands"]) * self.dtype.itemsize

    def _kind(self, index: int) -> np.void:
        if not self._kinds[index]["bands"]:
            info = image_info(self.path(index))
            alpha = self.rules.bands is not None and info.bands < max(self.rules.bands)
            bands = info.bands + (info.alpha if alpha else 0)
            self._kinds[index] = (bands, alpha and info.alpha > 0, info.windowed, False)
        kind: np.void = self._kinds[index]
        return kind


def cropped(array: np.ndarray, window: Window) -> np.ndarray:
    """A copy of the window's part of an array (H, W, ...)."""
    rows = slice(window.y, window.y + window.height)
    return np.array(array[rows, window.x : window.x + window.width])


def _spread(size: Size, most: int) -> list[Window]:
    """Windows in the middles of the cells of a regular grid that together have about `most` pixels at most."""
    cell = [max(1, side // _GRID) for side in size]
    side = [min(limit, max(1, math.isqrt(most) // _GRID)) for limit in cell]
    starts = [range((c - s) // 2, limit - s + 1, c) for c, s, limit in zip(cell, side, size, strict=True)]
    return [Window(y, x, side[0], side[1]) for y in starts[0] for x in starts[1]]
