"""How wide the structures of a mask are: which share of a class lies in those narrower than some pixels."""

import cv2
import numpy as np

LIMITS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Widths in pixels that structures are compared with."""
BLOCK = 1024  # pixels: the side of the squares that are looked at one by one
_KERNELS = (
    np.ones((2, 2), np.uint8),
    cv2.getStructuringElement(cv2.MORPH_CROSS, (3, 3)),
)
_MOSTLY = 0.75  # of a cell: half-way between those of bars that lie best and worst on the grid of cells
_NEIGHBOURS = np.ones((3, 3), np.uint8)


def narrow_pixels(shown: np.ndarray) -> np.ndarray:
    """(len(LIMITS),) float64: pixels of a mask (H, W) of 0 and 1, uint8, in structures narrower than each limit.

    A structure is narrower if an opening removes it: by a square of 2 pixels or a cross of 3, of the mask and of
    its halvings (Serra 1982, granulometry). Across the border of the array structures count as going on.
    """
    within = shown.astype(np.float32)  # share of each cell that is of the class
    total, scale = float(cv2.countNonZero(shown)), 1
    found: list[float] = []
    for limit in LIMITS:
        if limit == 4 * scale:
            within, scale = _halved(within), scale * 2
            shown = (within >= _MOSTLY).astype(np.uint8)
        left = _opened(shown, _KERNELS[limit == 3 * scale])
        if scale > 1:  # what shows in fewer cells belongs to what it borders on
            left = cv2.dilate(left, _NEIGHBOURS)
        kept = cv2.mean(within, left)[0] * cv2.countNonZero(left) * scale**2
        found.append(max(total - kept, found[-1] if found else 0.0))
    return np.array(found)


def _opened(shown: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    first, last = ((0, 0), (1, 1)) if len(kernel) == 2 else ((1, 1), (1, 1))  # an even kernel must not shift it
    wider = cv2.copyMakeBorder(shown, 2, 2, 2, 2, cv2.BORDER_REPLICATE)
    opened = cv2.dilate(cv2.erode(wider, kernel, anchor=first), kernel, anchor=last)
    return np.ascontiguousarray(opened[2:-2, 2:-2])


def _halved(within: np.ndarray) -> np.ndarray:
    """The mean of every 2 x 2 cells; beyond an odd side there is nothing."""
    height, width = within.shape
    even = cv2.copyMakeBorder(within, 0, height % 2, 0, width % 2, cv2.BORDER_CONSTANT)
    return cv2.resize(even, (even.shape[1] // 2, even.shape[0] // 2), interpolation=cv2.INTER_AREA)


def share_below(limit: float, narrow: np.ndarray, total: float) -> float:
    """Share of a class in structures narrower than `limit` pixels, between the LIMITS by interpolation."""
    if not total:
        return 0.0
    widths = np.log([1.0, *LIMITS])
    return float(np.interp(np.log(max(1.0, limit)), widths, [0.0, *narrow]) / total)
