"""How wide the structures of a mask are: which share of a class lies in those narrower than some pixels."""

from collections.abc import Sequence

import cv2
import numpy as np

LIMITS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Widths in pixels that structures are compared with."""
BLOCK = 1024  # pixels: the side of the squares that are looked at one by one
_KERNELS = (
    np.ones((2, 2), np.uint8),
    cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3)),
)


def narrow_pixels(shown: np.ndarray) -> np.ndarray:
    """(len(LIMITS),) float64: pixels of a mask (H, W) of 0 and 1, uint8, in structures narrower than each limit.

    A structure is narrower if an opening removes it: by a square of 2 pixels or a cross of 3, of the mask and of
    its halvings (Serra 1982, granulometry). Across the border of the array structures count as going on.
    """
    within = shown.astype(np.float32)  # pixels of the class in each cell
    total, scale = float(within.sum()), 1
    found: list[float] = []
    for limit in LIMITS:
        if limit == 4 * scale:
            shown, within, scale = _halved(shown, within, scale)
        opened = _opened(shown, _KERNELS[limit == 3 * scale])
        found.append(max(total - float(within[opened > 0].sum()), found[-1] if found else 0.0))
    return np.array(found)


def _opened(shown: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    first, last = ((0, 0), (1, 1)) if len(kernel) == 2 else ((1, 1), (1, 1))  # an even kernel must not shift it
    return cv2.dilate(cv2.erode(shown, kernel, anchor=first), kernel, anchor=last)


def _halved(shown: np.ndarray, within: np.ndarray, scale: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Every 2 x 2 cells as one, 1 where at least half of it is of the class."""
    height, width = shown.shape
    odd = (0, height % 2), (0, width % 2)
    cells = [np.pad(array, odd, mode) for array, mode in ((shown, "edge"), (within, "constant"))]  # type: ignore
    shown, within = (a.reshape(len(a) // 2, 2, -1, 2).sum(axis=(1, 3), dtype=np.float32) for a in cells)
    return (shown >= 2).astype(np.uint8), within, scale * 2


def share_below(limit: float, narrow: Sequence[float], total: float) -> float:
    """Share of a class in structures narrower than `limit` pixels, between the LIMITS by interpolation."""
    if not total:
        return 0.0
    widths = np.log([1.0, *LIMITS])
    return float(np.interp(np.log(max(1.0, limit)), widths, [0.0, *narrow]) / total)
