"""The largest difference between two sets of tensors."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor


class Difference(NamedTuple):
    """The largest absolute difference, and where it is; nowhere when all is equal."""

    value: float
    name: str | None


def largest_difference(reference: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Difference | None:
    """Between tensors of the same names, compared as float64; what is no number differs most.

    None when names or shapes differ.
    """
    if reference.keys() != other.keys() or any(other[name].shape != t.shape for name, t in reference.items()):
        return None
    largest = Difference(0.0, None)
    for name, tensor in reference.items():
        value = _difference(tensor, other[name])
        if math.isnan(value):
            return Difference(value, name)
        if value > largest.value:
            largest = Difference(value, name)
    return largest


def _difference(one: Tensor, other: Tensor) -> float:
    if not one.numel():
        return 0.0
    return float((one.detach().double() - other.detach().to(one.device).double()).abs().max())
