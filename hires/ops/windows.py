"""Where windows lie in an image: regular grids for inference, random places for training."""

import math

import numpy as np

from hires.interfaces import Window

Size = tuple[int, int]
"""(height, width) in pixels."""


def tiles(size: Size, window: Size, overlap: float = 0.0) -> list[Window]:
    """A regular grid of windows over an image of `size`, in row-major order.

    `overlap` is the share (0 to below 1) of a window that neighbours have in common at least. The last
    window of a row and of a column is shifted inwards; a window larger than the image is clipped to it.
    """
    if not 0 <= overlap < 1:
        raise ValueError(f"overlap is {overlap}, allowed: from 0 to below 1")
    height, width = clipped(size, window)
    return [
        Window(y, x, height, width)
        for y in _starts(size[0], height, overlap)
        for x in _starts(size[1], width, overlap)
    ]


def _starts(length: int, window: int, overlap: float) -> list[int]:
    step = max(1, window - math.ceil(window * overlap))
    return [*range(0, length - window, step), length - window]


def clipped(size: Size, window: Size) -> Size:
    """The window's (height, width) where it is no larger than the image."""
    return min(size[0], window[0]), min(size[1], window[1])


def random_window(size: Size, window: Size, rng: np.random.Generator) -> Window:
    """A window at a uniformly random place inside the image, clipped to it."""
    height, width = clipped(size, window)
    y, x = rng.integers(0, (size[0] - height + 1, size[1] - width + 1))
    return Window(int(y), int(x), height, width)


def window_around(pixel: Size, size: Size, window: Size, rng: np.random.Generator) -> Window:
    """A window that holds `pixel` (y, x) at a uniformly random place, then moved into the image."""
    height, width = clipped(size, window)
    y, x = np.asarray(pixel) - rng.integers(0, (height, width))
    y, x = np.clip((y, x), 0, (size[0] - height, size[1] - width))
    return Window(int(y), int(x), height, width)
