"""Where windows go: anywhere, or around what is in focus."""

import math
from typing import Protocol

import numpy as np

from hires.interfaces import ImageSource, Window
from hires.ops.windows import Size, random_window, window_around


class Focus(Protocol):
    """Knows where the classes in focus are in the images of a source."""

    def __bool__(self) -> bool:
        """Whether there is anything to pick."""

    def pick(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """(image, y, x) of a random pixel in focus."""


def image_areas(source: ImageSource) -> np.ndarray:
    """Pixels of every image, (images,) int64."""
    return np.array([math.prod(source.size(index)) for index in range(len(source))], np.int64)


class Placement:
    """A share of the windows holds a pixel in focus; the others fall on an image by its area, uniformly in it.

    With `by_area` false every image gets as many of them.
    """

    def __init__(self, source: ImageSource, focus: Focus | None, share: float, by_area: bool = True):
        self.source, self.focus = source, focus
        self.share = share if focus else 0.0
        self._ends = np.cumsum(image_areas(source) if by_area else np.ones(len(source), np.int64))

    def __call__(self, size: Size, rng: np.random.Generator) -> tuple[int, Window]:
        """Image index and a window of `size` in it, clipped to the image."""
        # drawn even if nothing is in focus, so that what a sample is depends on nothing else
        if self.focus is not None and rng.random() < self.share:
            return self.focused(self.focus, size, rng)
        return self.anywhere(size, rng)

    def focused(self, focus: Focus, size: Size, rng: np.random.Generator) -> tuple[int, Window]:
        index, y, x = focus.pick(rng)
        return index, window_around((y, x), self.source.size(index), size, rng)

    def anywhere(self, size: Size, rng: np.random.Generator) -> tuple[int, Window]:
        place = rng.integers(self._ends[-1])
        index = int(np.searchsorted(self._ends, place, side="right"))
        return index, random_window(self.source.size(index), size, rng)
