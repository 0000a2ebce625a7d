"""What a mask says about a pixel: which class it is (exclusive), or yes or no for every class (multi-label).

Losses and tasks ask one of these two and need not know which it is. A *decision* is a question that a pixel
answers: one, or one a class.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from hires.interfaces import IGNORE, ConfigError
from hires.ops.labels import MOST_LABELS, holds


class Labels(ABC):
    """Masks are (B, H, W) uint8, logits and probabilities (B, K, H, W); IGNORE answers nothing."""

    multilabel: bool

    def __init__(self, num_classes: int):
        self.num_classes = num_classes

    @property
    @abstractmethod
    def mask_values(self) -> int:
        """Values below this one are valid in a mask."""

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """Probability of every class in every pixel."""

    @abstractmethod
    def decide(self, probabilities: Tensor) -> Tensor:
        """The mask (H, W) uint8 that follows from probabilities (K, H, W)."""

    @abstractmethod
    def log_loss(self, logits: Tensor, masks: Tensor) -> Tensor:
        """-log of the probability of each decision that the mask gives, 0 where IGNORE; (B, decisions, H, W)."""

    @abstractmethod
    def weights(self, masks: Tensor, class_weights: Tensor) -> Tensor:
        """The class weight (K,) of each valid decision, to be broadcast over `log_loss`."""

    @abstractmethod
    def decisions(self, histogram: Tensor) -> Tensor:
        """Decisions of each class weight, (..., K), of masks with these histograms (..., 256)."""

    def holds(self, masks: Tensor, class_index: int) -> Tensor:
        """Pixels of a class, as booleans."""
        return holds(masks, class_index, self.multilabel)

    def membership(self, masks: Tensor) -> Tensor:
        """Pixels of every class, (B, K, H, W) bool."""
        return torch.stack([self.holds(masks, index) for index in range(self.num_classes)], 1)

    def pixels(self, histogram: Tensor) -> Tensor:
        """Pixels of each class, (..., K), of masks with these histograms (..., 256)."""
        values = torch.arange(IGNORE + 1, dtype=torch.uint8, device=histogram.device)
        shown = [histogram * self.holds(values, index) for index in range(self.num_classes)]
        return torch.stack(shown, -2).sum(-1)


class Exclusive(Labels):
    """One class a pixel: masks hold class indices, probabilities are a softmax."""

    multilabel = False

    @property
    def mask_values(self) -> int:
        return self.num_classes

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.softmax(1)

    def decide(self, probabilities: Tensor) -> Tensor:
        return probabilities.argmax(0).byte()

    def log_loss(self, logits: Tensor, masks: Tensor) -> Tensor:
        return F.cross_entropy(logits, masks.long(), ignore_index=IGNORE, reduction="none")[:, None]

    def weights(self, masks: Tensor, class_weights: Tensor) -> Tensor:
        by_value = F.pad(class_weights, (0, IGNORE + 1 - len(class_weights)))
        return by_value[masks.long()][:, None]

    def decisions(self, histogram: Tensor) -> Tensor:
        return self.pixels(histogram)


class Multilabel(Labels):
    """Any number of classes a pixel: masks hold bit fields, each class has its own sigmoid."""

    multilabel = True

    @property
    def mask_values(self) -> int:
        return 2**self.num_classes

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def decide(self, probabilities: Tensor) -> Tensor:
        """Classes of probability 0.5 and more."""
        mask = torch.zeros_like(probabilities[0], dtype=torch.uint8)
        for index, probability in enumerate(probabilities):
            mask |= (probability >= 0.5).byte() << index
        return mask

    def log_loss(self, logits: Tensor, masks: Tensor) -> Tensor:
        truth = self.membership(masks).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, truth, reduction="none") * valid(masks)[:, None]

    def weights(self, masks: Tensor, class_weights: Tensor) -> Tensor:
        return class_weights[:, None, None]

    def decisions(self, histogram: Tensor) -> Tensor:
        return histogram[..., :IGNORE].sum(-1, keepdim=True).expand(*histogram.shape[:-1], self.num_classes)


def make_labels(num_classes: int, multilabel: bool) -> Labels:
    """The labels of a task. Raises ConfigError for a number of classes that such masks cannot hold."""
    if not multilabel and num_classes < 2:
        raise ConfigError(
            f"data.classes (or model.num_classes): got {num_classes}, allowed: 2 and more, one for each pixel; "
            "count the background as a class of its own, or set model.multilabel=true"
        )
    if multilabel and num_classes > MOST_LABELS:
        raise ConfigError(
            f"data.classes (or model.num_classes): got {num_classes}, allowed with model.multilabel=true: at most "
            f"{MOST_LABELS}; leave some out, or set model.multilabel=false"
        )
    return Multilabel(num_classes) if multilabel else Exclusive(num_classes)


def valid(masks: Tensor) -> Tensor:
    """Pixels that count, as booleans."""
    return masks != IGNORE


def histogram(mask: Tensor) -> Tensor:
    """Pixels of each value of a mask (H, W) uint8; (256,) int64."""
    return torch.bincount(mask.flatten(), minlength=IGNORE + 1)
