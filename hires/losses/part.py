"""Losses of segmentation in two steps: sums over the pixels of a chunk of rows, and what follows from all sums."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hires.losses.border import EqualPixels
from hires.losses.chunks import upsample_rows
from hires.losses.labels import Labels
from hires.losses.pixels import Counts, Pixels


class Part(ABC):
    """A loss that counts `weight` times."""

    whole = False
    """Whether its sums do not add up over the rows of an image, so that it must see all at once."""

    def __init__(self, weight: float):
        self.weight = weight

    @abstractmethod
    def normalizer(self, counts: Counts) -> Tensor:
        """What it is divided by, of the masks with these counts."""

    @abstractmethod
    def sums(self, pixels: Pixels) -> Tensor:
        """Sums over pixels, of any shape; those of chunks of rows add up."""

    def total(self, sums: Tensor) -> Tensor:
        """The sum of the loss over a micro-batch, (), from the sums over all its pixels."""
        return sums

    def loss(self, sums: Tensor, normalizer: Tensor) -> Tensor:
        """The loss, (), of a micro-batch with these sums."""
        return self.weight * self.total(sums) / nonzero(normalizer)


def nonzero(normalizer: Tensor) -> Tensor:
    """The normalizer, or 1 where nothing counts and the sum is 0 too."""
    return torch.where(normalizer == 0, torch.ones_like(normalizer), normalizer)


class LossChunk(nn.Module):
    """The sums of every loss over some rows; all that has full resolution and is float32 is made in here."""

    class_weights: Tensor

    def __init__(self, parts: list[Part], labels: Labels, border: EqualPixels, class_weights: Sequence[float]):
        super().__init__()
        self._parts, self._labels, self._border = parts, labels, border
        self.register_buffer("class_weights", torch.tensor(class_weights), persistent=False)

    def forward(self, logits: Tensor, masks: Tensor, near: Tensor, scaled: int, crop: int) -> tuple[Tensor, ...]:
        """Of logits (B, K, rows, w) with masks (B, height, W) and which of their pixels are `near` a border.

        The logits are scaled up to `scaled` rows, of which the masks begin below the first `crop`.
        """
        logits = upsample_rows(logits.float(), scaled, crop, masks.shape[1:])
        pixels = Pixels(logits, masks, self._labels, self._border.weights(near), self.class_weights)
        return tuple(part.sums(pixels) for part in self._parts)
