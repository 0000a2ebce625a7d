"""Cross-entropy and Dice as sums divided by normalizers of the whole optimizer batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hires.interfaces import IGNORE, ConfigError
from hires.settings import Bounds, Settings

Weight = Annotated[float, Bounds(0)]


@dataclass(frozen=True)
class LossSettings(Settings):
    """Weights of the losses that are summed."""

    cross_entropy: Weight = 1.0
    dice: Weight = 1.0
    class_weights: tuple[Weight, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.cross_entropy and not self.dice:
            raise ConfigError("task.loss: cross_entropy and dice are both 0, so there is nothing to train")

    def build(self, num_classes: int) -> "SegmentationLoss":
        """The loss for a number of classes. Raises ConfigError when the class weights are not as many."""
        weights = self.class_weights or (1.0,) * num_classes
        if len(weights) != num_classes:
            raise ConfigError(f"task.loss.class_weights: {len(weights)} weights for {num_classes} classes")
        parts: dict[str, nn.Module] = {}
        if self.cross_entropy:
            parts["cross_entropy"] = CrossEntropy(self.cross_entropy, weights)
        if self.dice:
            parts["dice"] = Dice(self.dice)
        return SegmentationLoss(parts, num_classes)


class SegmentationLoss(nn.Module):
    """Losses of logits (B, K, h, w), scaled up to the masks (B, H, W); each is a scalar."""

    def __init__(self, parts: Mapping[str, nn.Module], num_classes: int):
        super().__init__()
        self.parts, self.num_classes = nn.ModuleDict(dict(parts)), num_classes

    def normalizers(self, masks: list[Tensor]) -> dict[str, Tensor]:
        """What each loss of these masks is divided by; the values of disjoint lists add up."""
        counts = torch.stack([class_counts(mask, self.num_classes) for mask in masks])
        return {name: part.normalizer(counts) for name, part in self.parts.items()}  # type: ignore[operator]

    def forward(self, logits: Tensor, masks: Tensor, normalizers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        logits = upsample(logits.float(), masks.shape[-2:])
        return {name: part(logits, masks, normalizers[name]) for name, part in self.parts.items()}


class CrossEntropy(nn.Module):
    """Weighted cross-entropy; normalized by the summed weight of the valid pixels."""

    class_weights: Tensor

    def __init__(self, weight: float, class_weights: tuple[float, ...]):
        super().__init__()
        self.weight = weight
        self.register_buffer("class_weights", torch.tensor(class_weights), persistent=False)

    def normalizer(self, counts: Tensor) -> Tensor:
        return (counts.sum(0) * self.class_weights.to(counts.device)).sum()

    def forward(self, logits: Tensor, masks: Tensor, normalizer: Tensor) -> Tensor:
        total = F.cross_entropy(
            logits, masks.long(), weight=self.class_weights, ignore_index=IGNORE, reduction="sum"
        )
        return self.weight * total / nonzero(normalizer)


class Dice(nn.Module):
    """Soft Dice (Milletari et al. 2016) of each image and each class that occurs in it.

    Dice of a whole batch cannot be split into micro-batches, so it is reduced per image; normalized by the
    number of (image, class) pairs. Classes that an image does not show do not count in it.
    """

    def __init__(self, weight: float, epsilon: float = 1.0):
        super().__init__()
        self.weight, self.epsilon = weight, epsilon

    def normalizer(self, counts: Tensor) -> Tensor:
        return (counts > 0).sum()

    def forward(self, logits: Tensor, masks: Tensor, normalizer: Tensor) -> Tensor:
        classes = torch.arange(logits.shape[1], device=masks.device, dtype=masks.dtype)
        truth = masks[:, None] == classes[:, None, None]
        valid = (masks != IGNORE)[:, None]
        probabilities = logits.softmax(1) * valid
        size = truth.sum((2, 3))
        overlap = (probabilities * truth).sum((2, 3))
        score = (2 * overlap + self.epsilon) / (probabilities.sum((2, 3)) + size + self.epsilon)
        return self.weight * ((1 - score) * (size > 0)).sum() / nonzero(normalizer)


def class_counts(mask: Tensor, num_classes: int) -> Tensor:
    """Pixels of each class in a mask (H, W) of uint8 indices; shape (num_classes,)."""
    return torch.bincount(mask.flatten(), minlength=IGNORE + 1)[:num_classes]


def nonzero(normalizer: Tensor) -> Tensor:
    """The normalizer, or 1 where nothing counts and the sum is 0 too."""
    return torch.where(normalizer == 0, torch.ones_like(normalizer), normalizer)


def upsample(logits: Tensor, size: tuple[int, int] | torch.Size) -> Tensor:
    """Bilinear, to (height, width); the tensor itself when it has that size."""
    if logits.shape[-2:] == torch.Size(size):
        return logits
    return F.interpolate(logits, size=tuple(size), mode="bilinear", align_corners=False)
