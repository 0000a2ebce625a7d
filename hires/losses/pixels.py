"""What losses look at: a micro-batch at full resolution, and the counts of a whole optimizer batch."""

from typing import NamedTuple

import torch
from torch import Tensor

from hires.losses.border import EqualPixels
from hires.losses.labels import Labels, valid


class Counts(NamedTuple):
    """What normalizers are made of; both add up over disjoint lists of masks."""

    weight: Tensor  # () summed weight of all valid decisions
    pairs: Tensor  # () (image, class) pairs where the image shows the class


class Overlaps(NamedTuple):
    """Sums over the valid pixels of each image and class, all (B, K)."""

    overlap: Tensor  # of the probabilities of the class on its own pixels
    predicted: Tensor  # of the probabilities of the class
    size: Tensor  # pixels of the class


class Pixels:
    """Logits (B, K, H, W) float32 and masks (B, H, W) uint8; what several losses need is made once.

    `class_weights` is (K,).
    """

    def __init__(self, logits: Tensor, masks: Tensor, labels: Labels, border: EqualPixels, class_weights: Tensor):
        self.logits, self.masks, self.labels = logits, masks, labels
        self._border, self._class_weights = border, class_weights
        self._made: dict[str, Tensor] = {}
        self._overlaps: Overlaps | None = None

    def log_loss(self) -> Tensor:
        """-log of the probability of each decision that the masks give; (B, decisions, H, W)."""
        if "log_loss" not in self._made:
            self._made["log_loss"] = self.labels.log_loss(self.logits, self.masks)
        return self._made["log_loss"]

    def weights(self) -> Tensor:
        """What each decision counts, to be broadcast over `log_loss`."""
        if "weights" not in self._made:
            classes = self.labels.weights(self.masks, self._class_weights)
            self._made["weights"] = classes * self._border.weights(self.masks)
        return self._made["weights"]

    def probabilities(self) -> Tensor:
        """Of every class in every pixel; (B, K, H, W)."""
        if "probabilities" not in self._made:
            self._made["probabilities"] = self.labels.probabilities(self.logits)
        return self._made["probabilities"]

    def overlaps(self) -> Overlaps:
        """Of prediction and truth."""
        if self._overlaps is None:
            probabilities, truth = self.probabilities(), self.labels.membership(self.masks)
            self._overlaps = Overlaps(
                overlap=(probabilities * truth).sum((2, 3)),
                predicted=(probabilities * valid(self.masks)[:, None]).sum((2, 3)),
                size=truth.sum((2, 3)),
            )
        return self._overlaps


def nonzero(normalizer: Tensor) -> Tensor:
    """The normalizer, or 1 where nothing counts and the sum is 0 too."""
    return torch.where(normalizer == 0, torch.ones_like(normalizer), normalizer)
