"""Masks as run lengths, in COCO's compressed form."""

import numpy as np
from faster_coco_eval.core import mask as coco_mask

from hires.errors import DataError
from hires.ops.instances import InstanceMask

_MOST_PIXELS = 2**32 - 1


def run_lengths(instance: InstanceMask, size: tuple[int, int]) -> bytes:
    """COCO's compressed counts of an object's mask in an image of (height, width), without making that image.

    What reaches beyond the image is cut off. Raises DataError for an image with more pixels than COCO can count.
    """
    height, width = size
    if height * width > _MOST_PIXELS:
        raise DataError(f"{height}x{width} pixels are too many for COCO's mask scores: evaluate boxes only")
    y, x = max(0, instance.y), max(0, instance.x)
    mask = instance.mask[y - instance.y : max(0, height - instance.y), x - instance.x : max(0, width - instance.x)]
    framed = np.pad(mask.T.astype(np.int8), [(0, 0), (1, 1)])  # columns, which COCO counts along
    column, row = np.nonzero(np.diff(framed, axis=1))  # starts and ends of runs in turn
    bounds = (column + x) * height + row + y
    touching = np.flatnonzero(bounds[1:] == bounds[:-1])  # where a run goes on at the top of the next column
    bounds = np.delete(bounds, np.concatenate([touching, touching + 1]))
    counts = np.diff(bounds, prepend=0, append=height * width)
    counts = counts if counts[-1] else counts[:-1]
    return coco_mask.frPyObjects({"size": list(size), "counts": counts.tolist()}, height, width)["counts"]
