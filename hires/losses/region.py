"""Losses of the overlap of regions, of each image and each class that it shows.

Those of a whole batch cannot be split into micro-batches, so they are reduced per image; normalized by the
number of (image, class) pairs. Classes that an image does not show do not count in it.
"""

import torch
from torch import Tensor

from hires.losses.labels import Labels, valid
from hires.losses.part import Part
from hires.losses.pixels import Counts, Pixels


class Tversky(Part):
    """Tversky loss (Salehi et al. 2017) of soft regions.

    `alpha` weighs false positives, `beta` false negatives; `epsilon`, in pixels, keeps tiny regions calm.
    """

    def __init__(self, weight: float, alpha: float, beta: float, epsilon: float = 0.5):
        super().__init__(weight)
        self.alpha, self.beta, self.epsilon = alpha, beta, epsilon

    def normalizer(self, counts: Counts) -> Tensor:
        return counts.pairs

    def sums(self, pixels: Pixels) -> Tensor:
        return pixels.overlaps()

    def total(self, sums: Tensor) -> Tensor:
        overlap, predicted, size = sums
        wrong = self.alpha * (predicted - overlap) + self.beta * (size - overlap)
        score = (overlap + self.epsilon) / (overlap + wrong + self.epsilon)
        return ((1 - score) * (size > 0)).sum()


class Dice(Tversky):
    """Soft Dice (Milletari et al. 2016, without squares): what Tversky is with equal weights of one half."""

    def __init__(self, weight: float):
        super().__init__(weight, alpha=0.5, beta=0.5)


class Lovasz(Part):
    """Lovász-Softmax (Berman et al. 2018): the Jaccard index of thresholded errors, made convex.

    With several labels a pixel the errors are those of each class's sigmoid, not the paper's hinge.
    """

    whole = True

    def normalizer(self, counts: Counts) -> Tensor:
        return counts.pairs

    def sums(self, pixels: Pixels) -> Tensor:
        probabilities = pixels.probabilities()
        slopes, offset = tangent(probabilities.detach(), pixels.masks, pixels.labels)
        return offset + (probabilities * slopes).sum()


@torch.no_grad()
def tangent(probabilities: Tensor, masks: Tensor, labels: Labels) -> tuple[Tensor, Tensor]:
    """Slopes (B, K, H, W) and offset () of the Lovász extension, summed over images and their classes.

    The extension is linear as long as the order of the errors stays, so this is its value and its gradient;
    autograd then keeps one tensor, and not the orders of all classes.
    """
    slopes, offset = torch.zeros_like(probabilities), probabilities.new_zeros(())
    for image, mask in enumerate(masks):
        for index in range(labels.num_classes):
            truth = labels.holds(mask, index)
            if not truth.any():
                continue
            steps = error_weights(probabilities[image, index], truth, valid(mask))
            slopes[image, index] = torch.where(truth, -steps, steps)
            offset += (steps * truth).sum()
    return slopes, offset


def error_weights(probability: Tensor, truth: Tensor, counted: Tensor) -> Tensor:
    """Weight of each pixel's error |truth - probability| in the extension, 0 where not counted; all (H, W)."""
    errors = torch.where(truth, 1 - probability, probability).masked_fill(~counted, -1)  # last in the order
    order = errors.flatten().argsort(descending=True, stable=True)
    weights = torch.empty_like(probability).flatten()
    weights[order] = jaccard_steps(truth.flatten()[order])
    return weights.view_as(probability) * counted


def jaccard_steps(truth: Tensor) -> Tensor:
    """What each pixel adds to 1 - Jaccard once it is wrong too, after those before it; (n,), from bools (n,).

    The differences of Algorithm 1 of the paper in closed form: neighbours in a large image differ by less
    than float32 resolves.
    """
    seen = truth.cumsum(0)
    intersection = seen[-1] - seen
    union = seen[-1] + (~truth).cumsum(0)
    return torch.where(truth, 1 / union, intersection / (union * (union - 1)))
