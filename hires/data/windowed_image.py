"""An image that is too large to be decoded as a whole, in the shape of an array."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hires.interfaces import Window


class WindowedImage:
    """(H, W, C) whose pixels are read when a slice `image[rows, columns]` asks for them.

    `read` gives those of a window. Whoever asks row by row has every row of windows read once: as a band as wide
    as the image, which is kept until another is asked for, unless it has more than `most` bytes.
    """

    def __init__(
        self, read: Callable[[Window], np.ndarray], shape: tuple[int, int, int], dtype: np.dtype, most: int
    ):
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self._read, self._most = read, most
        self._top, self._band = 0, np.zeros((0, *shape[1:]), dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: Any) -> np.ndarray:
        """Pixels of a slice of rows, or of (rows, columns), both in steps of 1."""
        slices = place if isinstance(place, tuple) else (place,)
        rows, columns = ((*slices, slice(None)))[:2]
        (top, bottom, _), (left, right, _) = rows.indices(self.shape[0]), columns.indices(self.shape[1])
        if top < self._top or bottom > self._top + len(self._band):
            if (bottom - top) * np.prod(self.shape[1:]) * self.dtype.itemsize > self._most:
                return self._read(Window(top, left, bottom - top, right - left))
            self._top, self._band = top, self._read(Window(top, 0, bottom - top, self.shape[1]))
        return self._band[top - self._top : bottom - self._top, left:right]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All of it."""
        return np.asarray(self._read(Window(0, 0, *self.shape[:2])), dtype)
