"""Boxes as arrays: (N, 4) x1 y1 x2 y2 in pixels, pixel i reaching from i to i + 1."""

from collections.abc import Sequence

import numpy as np

from hires.interfaces import Window
from hires.ops.instances import InstanceMask
from hires.ops.padding import resize_mask
from hires.ops.windows import Size


def clipped(boxes: np.ndarray, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Boxes clipped to an image of `size`, and the share (N,) of each area that is left; 0 where there is none."""
    height, width = size
    inside = np.clip(boxes, 0, (width, height, width, height))
    whole, left = areas(boxes), areas(inside)
    return inside, np.divide(left, whole, out=np.zeros(len(boxes)), where=whole > 0)


def shares_within(boxes: np.ndarray, window: Window) -> np.ndarray:
    """The share (N,) of each box's area that lies in a window of the same image."""
    return clipped(boxes - np.array((window.x, window.y, window.x, window.y)), window[2:])[1]


def areas(boxes: np.ndarray) -> np.ndarray:
    """Pixels (N,) of boxes, 0 for what has no extent."""
    sides = (boxes[:, 2:] - boxes[:, :2]).clip(0)
    return sides[:, 0] * sides[:, 1]


def painted(masks: Sequence[InstanceMask], before: Size, after: Size) -> np.ndarray:
    """Masks (N, H, W) uint8 of `after` pixels, of objects in a window of `before` pixels."""
    full = np.zeros((len(masks), *after), np.uint8)
    for index, mask in enumerate(masks):  # one at a time: before scaling they may be large
        full[index] = resize_mask(_canvas(mask, before), after)
    return full


def _canvas(mask: InstanceMask, size: Size) -> np.ndarray:
    """An object's mask (H, W) uint8 in its window; what lies beyond is left out."""
    canvas = np.zeros(size, np.uint8)
    top, left = max(0, -mask.y), max(0, -mask.x)
    y, x = mask.y + top, mask.x + left
    part = mask.mask[top : top + max(0, size[0] - y), left : left + max(0, size[1] - x)]
    canvas[y : y + part.shape[0], x : x + part.shape[1]] = part
    return canvas


def pasted(masks: np.ndarray, y: int, x: int, size: Size) -> np.ndarray:
    """Masks (N, h, w) with their upper left pixel at (y, x) of empty ones of `size`."""
    full = np.zeros((len(masks), *size), np.uint8)
    full[:, y : y + masks.shape[1], x : x + masks.shape[2]] = masks
    return full
