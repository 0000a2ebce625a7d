"""An image file whose header has been read."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hires.interfaces import Window


@dataclass(frozen=True)
class Picture:
    """What a header says, and how to get at the pixels.

    `pixels` gives (height, width, bands) of a window, all as stored, not yet turned upright.
    """

    format: str  # in words for messages
    size: tuple[int, int]  # (height, width) as stored
    dtype: np.dtype  # uint8, uint16, int16 or float32, and with raw values other integers
    bands: int
    pixels: Callable[[Window], np.ndarray]
    orientation: int = 1  # as EXIF counts
    windowed: bool = False  # a window is decoded alone
    rows: int = 1  # as stored that are decoded together, where windows are
    alphas: int = 0  # samples beyond the bands, which say how opaque a pixel is
    opaque: Callable[[Window], np.ndarray] | None = None  # as `pixels`, with those samples as the last bands


def part(array: np.ndarray, window: Window) -> np.ndarray:
    """The window's part of (H, W) or (H, W, C) as (h, w, C), a view."""
    array = array if array.ndim == 3 else array[:, :, None]
    return array[window.y : window.y + window.height, window.x : window.x + window.width]
