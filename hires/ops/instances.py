"""Masks of single objects, kept as small as the object."""

from typing import NamedTuple

import numpy as np


class InstanceMask(NamedTuple):
    """The pixels of one object: `mask` (h, w) bool, whose upper left pixel is (y, x) of the image or window."""

    y: int
    x: int
    mask: np.ndarray
