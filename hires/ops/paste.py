"""Turns the masks that a network gives on small grids into pixels of the image."""

from collections.abc import Iterator

import numpy as np

from hires.ops.boxes import Detections
from hires.ops.instances import InstanceMask

_ROWS = 512  # at a time, so that a large object is never held as floats


def pasted(found: Detections) -> Iterator[InstanceMask]:
    """The pixels of each detection, at probability 0.5 and above, within its box and the extent.

    A pixel's probability is sampled bilinearly at its centre from the grid over the frame; outside it is 0.
    """
    if not len(found.boxes):
        return
    if found.masks is None or found.frames is None:
        raise ValueError("the detections have no masks")
    limit = np.array([*found.extent[::-1]] * 2)
    for box, frame, grid in zip(found.boxes.cpu().numpy(), found.frames.cpu(), found.masks.cpu(), strict=True):
        low, high = np.floor(box[:2]), np.ceil(box[2:])
        x1, y1, x2, y2 = np.concatenate([low, high]).clip(0, limit).astype(int)
        left, top, right, bottom = frame.double().tolist()
        across = _sampling(np.arange(x1, x2), left, right, grid.shape[1])
        down = _sampling(np.arange(y1, y2), top, bottom, grid.shape[0])
        columns = grid.float().numpy() @ across.T
        mask = np.empty((y2 - y1, x2 - x1), bool)
        for start in range(0, len(mask), _ROWS):
            mask[start : start + _ROWS] = down[start : start + _ROWS] @ columns >= 0.5
        yield InstanceMask(int(y1), int(x1), mask)


def _sampling(pixels: np.ndarray, low: float, high: float, cells: int) -> np.ndarray:
    """Weights (pixels, cells), float32: linear interpolation at pixel centres between the centres of the cells."""
    at = (pixels + 0.5 - low) * (cells / max(high - low, 1e-6)) - 0.5
    distance = np.abs(at[:, None] - np.arange(cells))
    return (1 - distance).clip(min=0).astype(np.float32)
