"""The losses of segmentation as sums divided by normalizers of the whole optimizer batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from hires.interfaces import ConfigError
from hires.losses.balance import balanced_weights
from hires.losses.border import BorderPixels, EqualPixels
from hires.losses.chunks import row_chunks, take_rows
from hires.losses.labels import Labels, histogram, make_labels
from hires.losses.part import LossChunk, Part
from hires.losses.pixels import Counts
from hires.losses.pixelwise import CrossEntropy, Focal
from hires.losses.region import Dice, Lovasz, Tversky
from hires.settings import Bounds, Settings

Weight = Annotated[float, Bounds(0)]
POWERS = {"balanced": 1.0, "sqrt_balanced": 0.5}
"""Class weights from data fall with this power of the pixels of a class."""


@dataclass(frozen=True)
class LossSettings(Settings):
    """Weights of the losses that are summed, and how pixels and classes count in them."""

    cross_entropy: Weight = 1.0
    dice: Weight = 1.0
    focal: Weight = 0.0
    tversky: Weight = 0.0
    lovasz: Weight = 0.0
    focal_gamma: Weight = 2.0
    tversky_alpha: Weight = 0.3  # weight of false positives
    tversky_beta: Weight = 0.7  # weight of false negatives
    boundary_weight: Weight = 0.0  # what a pixel near a border counts more
    boundary_radius: Annotated[int, Bounds(1, 64)] = 3  # pixels
    class_weights: tuple[Weight, ...] | Literal["balanced", "sqrt_balanced"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any((self.cross_entropy, self.dice, self.focal, self.tversky, self.lovasz)):
            raise ConfigError(
                "task.loss: cross_entropy, dice, focal, tversky and lovasz are all 0, so there is nothing to train"
            )
        if self.tversky and not self.tversky_alpha and not self.tversky_beta:
            raise ConfigError("task.loss: tversky_alpha and tversky_beta are both 0, so tversky would be 0 too")

    def build(
        self, num_classes: int, *, multilabel: bool = False, pixels: Callable[[], Iterable[int]] | None = None
    ) -> "SegmentationLoss":
        """The loss for a number of classes.

        `pixels` counts those of each class in the training data; it is called for balanced class weights only,
        which are all 1 without it. Raises ConfigError for classes or class weights of the wrong number.
        """
        labels = make_labels(num_classes, multilabel)
        return SegmentationLoss(
            parts=self._parts(),
            labels=labels,
            border=self._border(),
            class_weights=self._weights(num_classes, multilabel, pixels),
        )

    def _parts(self) -> dict[str, Part]:
        parts: dict[str, Part] = {
            "cross_entropy": CrossEntropy(self.cross_entropy),
            "dice": Dice(self.dice),
            "focal": Focal(self.focal, self.focal_gamma),
            "tversky": Tversky(self.tversky, self.tversky_alpha, self.tversky_beta),
            "lovasz": Lovasz(self.lovasz),
        }
        return {name: part for name, part in parts.items() if getattr(self, name)}

    def _border(self) -> EqualPixels:
        if not self.boundary_weight:
            return EqualPixels()
        return BorderPixels(self.boundary_weight, self.boundary_radius)

    def _weights(
        self, num_classes: int, multilabel: bool, pixels: Callable[[], Iterable[int]] | None
    ) -> tuple[float, ...]:
        given = self.class_weights
        if isinstance(given, str) and multilabel:
            raise ConfigError(
                f"task.loss.class_weights: got {given}, allowed with model.multilabel=true: a list of numbers; "
                "every class has as many decisions, weights by its pixels would drown rare ones in negatives"
            )
        if isinstance(given, str):
            given = balanced_weights(list(pixels()), POWERS[given]) if pixels else None
        weights = given or (1.0,) * num_classes
        if len(weights) != num_classes:
            raise ConfigError(f"task.loss.class_weights: {len(weights)} weights for {num_classes} classes")
        return weights


class SegmentationLoss(nn.Module):
    """Losses of logits (B, K, h, w), scaled up to the masks (B, H, W); each is a scalar, in float32.

    Always made from the same chunks of rows (`losses/chunks.py`), each by one call of `chunk`.
    """

    unit_names = ("chunk",)
    """Modules, relative to this one, each call of which can be recomputed in backward."""

    def __init__(
        self,
        *,
        parts: Mapping[str, Part],
        labels: Labels,
        border: EqualPixels,
        class_weights: Sequence[float],
    ):
        super().__init__()
        self.parts, self.labels, self.border = dict(parts), labels, border
        self.chunk = LossChunk(list(parts.values()), labels, border, class_weights)

    @property
    def class_weights(self) -> Tensor:
        """(K,)"""
        return self.chunk.class_weights

    def normalizers(self, masks: list[Tensor]) -> dict[str, Tensor]:
        """What each loss of these masks is divided by; the values of disjoint lists add up."""
        counts = self.count(masks)
        return {name: part.normalizer(counts) for name, part in self.parts.items()}

    def count(self, masks: list[Tensor]) -> Counts:
        """What normalizers are made of, of masks (H, W)."""
        plain = [histogram(mask) for mask in masks]
        weighted = [self.border.weighted(mask, count) for mask, count in zip(masks, plain, strict=True)]
        decisions = self.labels.decisions(torch.stack(weighted).sum(0))
        return Counts(
            weight=(decisions * self.class_weights.to(decisions.device)).sum(),
            pairs=(self.labels.pixels(torch.stack(plain)) > 0).sum(),
        )

    def forward(self, logits: Tensor, masks: Tensor, normalizers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        sums = dict(zip(self.parts, self._sums(logits, masks), strict=True))
        return {name: part.loss(sums[name], normalizers[name]) for name, part in self.parts.items()}

    @torch.compiler.disable(recursive=False)  # each chunk is compiled, once, and not one program of all of them
    def _sums(self, logits: Tensor, masks: Tensor) -> tuple[Tensor, ...]:
        """What `chunk` gives, added up over all chunks from the top to the bottom."""
        near, totals = self.border.near(masks), ()
        whole = any(part.whole for part in self.parts.values())
        for rows in row_chunks(logits.shape, masks.shape[1:], whole=whole):
            taken, logits = take_rows(logits, rows)
            of_pixels = (values.narrow(1, rows.top, rows.height) for values in (masks, near))
            sums = self.chunk(taken, *of_pixels, rows.scaled, rows.crop)
            totals = tuple(map(torch.add, totals, sums)) if totals else sums
        return totals
