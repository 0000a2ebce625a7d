"""What losses look at: rows of a micro-batch at full resolution, and the counts of a whole optimizer batch."""

from typing import NamedTuple

import torch
from torch import Tensor

from hires.losses.labels import Labels, valid


class Counts(NamedTuple):
    """What normalizers are made of; both add up over disjoint lists of masks."""

    weight: Tensor  # () summed weight of all valid decisions
    pairs: Tensor  # () (image, class) pairs where the image shows the class


class Pixels:
    """Rows of a micro-batch at full resolution; what several losses need of them is made once.

    Logits are (B, K, H, W) float32, masks (B, H, W) uint8, `pixel_weights` what `EqualPixels.weights` gives,
    `class_weights` (K,).
    """

    def __init__(
        self, logits: Tensor, masks: Tensor, labels: Labels, pixel_weights: Tensor | float, class_weights: Tensor
    ):
        self.logits, self.masks, self.labels = logits, masks, labels
        self._pixel_weights, self._class_weights = pixel_weights, class_weights
        self._made: dict[str, Tensor] = {}

    def log_loss(self) -> Tensor:
        """-log of the probability of each decision that the masks give; (B, decisions, H, W)."""
        if "log_loss" not in self._made:
            self._made["log_loss"] = self.labels.log_loss(self.logits, self.masks)
        return self._made["log_loss"]

    def weights(self) -> Tensor:
        """What each decision counts, to be broadcast over `log_loss`."""
        if "weights" not in self._made:
            self._made["weights"] = self.labels.weights(self.masks, self._class_weights) * self._pixel_weights
        return self._made["weights"]

    def probabilities(self) -> Tensor:
        """Of every class in every pixel; (B, K, H, W)."""
        if "probabilities" not in self._made:
            self._made["probabilities"] = self.labels.probabilities(self.logits)
        return self._made["probabilities"]

    def overlaps(self) -> Tensor:
        """Sums over the valid pixels of each image and class, (3, B, K).

        Of the probabilities of the class on its own pixels, of its probabilities everywhere, of its pixels.
        """
        if "overlaps" not in self._made:
            probabilities, truth = self.probabilities(), self.labels.membership(self.masks)
            overlap = (probabilities * truth).sum((2, 3))
            predicted = (probabilities * valid(self.masks)[:, None]).sum((2, 3))
            self._made["overlaps"] = torch.stack([overlap, predicted, truth.sum((2, 3)).float()])
        return self._made["overlaps"]
