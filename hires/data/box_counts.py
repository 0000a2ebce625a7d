"""How many boxes one window can meet."""

from collections.abc import Sequence

import numpy as np

from hires.ops.windows import Size


def most_in_window(images: Sequence[np.ndarray], size: Size | None) -> int:
    """The most boxes that a window of `size` pixels, or a whole image (None), meets; images: (N, 4) boxes each."""
    most = 0
    for boxes in sorted(images, key=len, reverse=True):
        if len(boxes) <= most:
            break
        most = len(boxes) if size is None else max(most, _deepest(boxes, size, most))
    return most


def _deepest(boxes: np.ndarray, size: Size, known: int) -> int:
    """The most boxes (N, 4) that one window meets, where they are more than `known`; else anything up to that.

    A window's upper left corner (y, x) meets a box if it lies in a rectangle that is the box, grown to the left
    and above by the window. The corner of deepest overlap can be moved to the left side of one of these
    rectangles: each is tried, the most promising first, and the overlap counted along it.
    """
    boxes = boxes.astype(np.float64)  # in which the differences are exact
    left, top = (boxes[:, axis] - side for axis, side in ((0, size[1]), (1, size[0])))
    right, bottom = boxes[:, 2], boxes[:, 3]
    at = np.searchsorted(np.sort(left), left, side="right") - np.searchsorted(np.sort(right), left, side="right")
    for place in np.argsort(-at):
        if at[place] <= known:
            break
        met = (left <= left[place]) & (right > left[place])
        known = max(known, _overlap(top[met], bottom[met]))
    return known


def _overlap(starts: np.ndarray, ends: np.ndarray) -> int:
    """The most of some half-open intervals that share a point."""
    starts = np.sort(starts)
    begun = np.searchsorted(starts, starts, side="right")
    return int((begun - np.searchsorted(np.sort(ends), starts, side="right")).max())
