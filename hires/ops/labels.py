"""Which classes a mask value stands for: one class index, or with several labels a pixel one bit a class."""

from typing import TypeVar

import numpy as np
from torch import Tensor

from hires.interfaces import IGNORE

Mask = TypeVar("Mask", np.ndarray, Tensor)

MOST_LABELS = 7
"""Classes that a multi-label mask can hold: the bits of a byte without the one that IGNORE needs."""


def holds(mask: Mask, class_index: int, multilabel: bool) -> Mask:
    """Where a mask (..., H, W) of uint8 shows a class, as booleans; nowhere where it is IGNORE."""
    if not multilabel:
        return mask == class_index
    return ((mask >> class_index) & 1 == 1) & (mask != IGNORE)
