"""Losses that are sums over pixels; normalized by the summed weights of the valid pixels.

With several labels a pixel, the sums and the weights run over every class of every pixel.
"""

from torch import Tensor

from hires.losses.part import Part
from hires.losses.pixels import Counts, Pixels


class CrossEntropy(Part):
    """Weighted cross-entropy; with several labels a pixel, weighted binary cross-entropy of every class."""

    def normalizer(self, counts: Counts) -> Tensor:
        return counts.weight

    def sums(self, pixels: Pixels) -> Tensor:
        return (pixels.log_loss() * pixels.weights()).sum()


class Focal(Part):
    """Focal loss (Lin et al. 2017): cross-entropy times (1 - p)^gamma, p the probability of what is right.

    Not normalized by p, and without their alpha: class weights take its place.
    """

    def __init__(self, weight: float, gamma: float):
        super().__init__(weight)
        self.gamma = gamma

    def normalizer(self, counts: Counts) -> Tensor:
        return counts.weight

    def sums(self, pixels: Pixels) -> Tensor:
        log_loss = pixels.log_loss()
        # below 1 the power has no finite slope at 0, where sure and ignored pixels are
        missing = (-(-log_loss).expm1()).clamp(min=1e-12)
        return (missing**self.gamma * log_loss * pixels.weights()).sum()
