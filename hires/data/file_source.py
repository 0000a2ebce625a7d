"""The images of one split as files: their names, sizes and pixels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hires.data.cache import NoCache
from hires.data.images import image_size, read_image, to_channels
from hires.interfaces import Window


class FileSource:
    """Image files below `root`, by index; decoded files go through the cache.

    `images`: paths relative to the root. `sizes`: (N, 2) int64 height and width, if they are known.
    """

    def __init__(
        self, root: Path, images: Sequence[str], channels: int, cache: NoCache, sizes: np.ndarray | None = None
    ):
        self.root, self.channels, self._cache = root, channels, cache
        # arrays, not lists: worker processes share their pages, and counting references copies none
        self._images = np.array(images)
        self._sizes = np.zeros((len(images), 2), np.int64) if sizes is None else sizes

    def __len__(self) -> int:
        return len(self._images)

    def name(self, index: int) -> str:
        return str(self._images[index])

    def size(self, index: int) -> tuple[int, int]:
        if not self._sizes[index, 0]:
            self._sizes[index] = image_size(self.root / self.name(index))
        height, width = self._sizes[index]
        return int(height), int(width)

    def pixels(self, index: int, window: Window | None) -> np.ndarray:
        """(H, W, C) uint8 of the window, a copy, or of all, maybe a read-only memory map. Raises DataError."""
        image = self._cache.load(self.root / self.name(index), read_image)
        return to_channels(image if window is None else cropped(image, window), self.channels)


def cropped(array: np.ndarray, window: Window) -> np.ndarray:
    """A copy of the window's part of an array (H, W, ...)."""
    rows = slice(window.y, window.y + window.height)
    return np.array(array[rows, window.x : window.x + window.width])
