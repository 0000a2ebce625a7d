"""How far outputs of the same model, computed in two ways, are from each other."""

from typing import NamedTuple

import torch
from torch import Tensor


class Agreement(NamedTuple):
    """The largest difference among what was compared: of numbers above 1 in size, relative to them."""

    difference: float
    compared: int  # numbers, pixels or detections
    unmatched: int = 0  # detections that only one of both has

    def __add__(self, other: object) -> "Agreement":
        """Of both comparisons together."""
        if not isinstance(other, Agreement):
            return NotImplemented
        largest = max(self.difference, other.difference, key=_nan_first)
        return Agreement(largest, self.compared + other.compared, self.unmatched + other.unmatched)


NONE = Agreement(0.0, 0)


def numbers(ours: Tensor, theirs: Tensor) -> Agreement:
    """Of tensors of one shape. What is no number differs most, and so do other shapes."""
    if ours.shape != theirs.shape:
        return Agreement(torch.inf, ours.numel())
    if not ours.numel():
        return NONE
    return Agreement(float(_differences(ours, theirs).max()), ours.numel())


def classes(probabilities: Tensor, ours: Tensor, theirs: Tensor) -> Agreement:
    """Of class indices (B, H, W): how much less probable theirs are, by probabilities (B, K, H, W)."""
    if ours.shape != theirs.shape:
        return Agreement(torch.inf, ours.numel())
    of_both = [probabilities.gather(1, index[:, None].long()) for index in (ours, theirs)]
    return Agreement(float((of_both[0] - of_both[1]).max()), ours.numel())


def bits(probabilities: Tensor, ours: Tensor, theirs: Tensor) -> Agreement:
    """Of bit fields (B, H, W): how far the probability of a class that only one has is from 0.5."""
    if ours.shape != theirs.shape:
        return Agreement(torch.inf, ours.numel())
    differing = ours ^ theirs
    margins = [
        ((probability - 0.5).abs() * ((differing >> index) & 1)).max()
        for index, probability in enumerate(probabilities.unbind(1))
    ]
    return Agreement(float(torch.stack(margins).max()), ours.numel())


def detections(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], limit: float) -> Agreement:
    """Of boxes (N, 4), scores (N,), labels (N,) and maybe masks (N, S, S), whose order may differ.

    Each of ours goes with the nearest of theirs that has the same label and is still free; those farther than
    `limit` apart in box or score have no counterpart, as where rounding decides about a box.
    """
    free = torch.ones(len(theirs[0]), dtype=torch.bool)
    largest, pairs = 0.0, 0
    for index in range(len(ours[0])):
        far = _distances([part[index] for part in ours[:3]], theirs[:3]).masked_fill(~free, torch.inf)
        if not len(far) or not float(far.min()) <= limit:
            continue
        nearest = int(far.argmin())
        free[nearest], pairs = False, pairs + 1
        further = [
            float(_differences(a[index], b[nearest]).max()) for a, b in zip(ours[3:], theirs[3:], strict=True)
        ]
        largest = max(largest, float(far[nearest]), *further, key=_nan_first)
    return Agreement(largest, max(len(ours[0]), len(theirs[0])), len(ours[0]) + len(theirs[0]) - 2 * pairs)


def _distances(one: list[Tensor], others: tuple[Tensor, ...]) -> Tensor:
    """Of one detection from others (N,), infinite for those of other labels."""
    box, score, label = one
    boxes, scores, labels = others
    far = torch.maximum(_differences(box, boxes).amax(1), _differences(score, scores))
    return far.masked_fill(labels != label, torch.inf)


def _differences(ours: Tensor, theirs: Tensor) -> Tensor:
    """Of each number, with NaN where either is none."""
    ours, theirs = ours.double(), theirs.double()
    return (ours - theirs).abs() / ours.abs().clamp(min=1)


def _nan_first(value: float) -> float:
    return torch.inf if value != value else value
