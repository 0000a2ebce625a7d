"""How much a pixel counts: all the same, or more beside the borders of classes."""

import torch
from torch import Tensor
from torch.nn import functional as F

from hires.interfaces import IGNORE
from hires.losses.labels import histogram, valid


class EqualPixels:
    """Every valid pixel counts once."""

    def near(self, masks: Tensor) -> Tensor:
        """Pixels of masks (B, H, W) that count more, as booleans; depends on more rows than those of the pixel."""
        return masks.new_zeros((), dtype=torch.bool).expand(masks.shape)

    def weights(self, near: Tensor) -> Tensor | float:
        """What each pixel (B, H, W) counts, to be broadcast over (B, decisions, H, W)."""
        return 1.0

    def weighted(self, mask: Tensor, counts: Tensor) -> Tensor:
        """The histogram (256,) of a mask (H, W), given unweighted, with what its pixels count."""
        return counts


class BorderPixels(EqualPixels):
    """Valid pixels within `radius` pixels of a border count 1 + `weight` times, the others once."""

    def __init__(self, weight: float, radius: int):
        self.weight, self.radius = weight, radius

    def near(self, masks: Tensor) -> Tensor:
        return near_border(masks, self.radius)

    def weights(self, near: Tensor) -> Tensor:
        return 1 + self.weight * near[:, None]

    def weighted(self, mask: Tensor, counts: Tensor) -> Tensor:
        inside = ~self.near(mask[None])[0]
        return counts + self.weight * histogram(mask.masked_fill(inside, IGNORE))


def near_border(masks: Tensor, radius: int) -> Tensor:
    """Pixels of masks (B, H, W) whose square of 2 radius + 1 pixels shows more than one value; (B, H, W) bool.

    That is where a maximum and a minimum of some class's membership over the square differ; one maximum and
    one minimum of the values tell it for all classes at once. IGNORE makes no border and is never near one.
    """
    counted = valid(masks)
    # a minimum is a maximum of complements; what IGNORE becomes, 0, changes neither maximum
    extremes = torch.stack([masks.masked_fill(~counted, 0), IGNORE - masks], 1)
    for dimension in (-2, -1):  # that over a square is one over columns and then over rows
        extremes = running_maximum(extremes, radius, dimension)
    return counted & (extremes[:, 0] > IGNORE - extremes[:, 1])


def running_maximum(values: Tensor, radius: int, dimension: int) -> Tensor:
    """Maximum of each of the values (..., H, W) >= 0 and `radius` neighbours to both sides along a dimension.

    Doubles the width until it is reached: far faster on bytes than max-pooling, which takes floats only.
    """
    values = F.pad(values, (0, 0, radius, radius) if dimension == -2 else (radius, radius))
    width, wanted = 1, 2 * radius + 1
    while width < wanted:
        step = min(width, wanted - width)
        length = values.shape[dimension] - step
        values = torch.maximum(values.narrow(dimension, 0, length), values.narrow(dimension, step, length))
        width += step
    return values
