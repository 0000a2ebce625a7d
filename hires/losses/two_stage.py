"""Losses of two-stage detectors: of each image over the boxes drawn in it, averaged over the optimizer batch."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hires.interfaces import Target
from hires.losses.dense import SMOOTH, AnchorsOf, Weight
from hires.ops.two_stage import Judged, JudgedMasks, TwoStageOutputs
from hires.settings import Settings


@dataclass(frozen=True)
class FasterRcnnLossSettings(Settings):
    """Weights of the losses of Faster R-CNN."""

    task = "faster_rcnn"

    objectness: Weight = 1.0
    proposal_box: Weight = 1.0
    classification: Weight = 1.0
    box: Weight = 1.0

    def build(self) -> "FasterRcnnLoss":
        return FasterRcnnLoss(self)


@dataclass(frozen=True)
class MaskRcnnLossSettings(FasterRcnnLossSettings):
    """Weights of the losses of Mask R-CNN."""

    task = "mask_rcnn"

    mask: Weight = 1.0

    def build(self) -> "MaskRcnnLoss":
        return MaskRcnnLoss(self)


class FasterRcnnLoss(nn.Module):
    """Cross-entropy and smooth L1 (Ren et al. 2015) of the anchors, and of the boxes.

    What is drawn depends on the network, so the losses cannot be sums over the whole batch: each image's
    have denominators of their own, and only the images are counted in all of it.
    """

    unit_names: tuple[str, ...] = ()  # a unit of the memory policies as a whole

    def __init__(self, settings: FasterRcnnLossSettings):
        super().__init__()
        self.settings = settings

    def normalizers(self, targets: list[Target], anchors_of: AnchorsOf) -> dict[str, Tensor]:
        """The images; those of disjoint lists add up."""
        return {"images": torch.tensor(len(targets))}

    def forward(
        self, outputs: TwoStageOutputs, targets: list[Target], normalizers: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        losses = {name: getattr(self.settings, name) * loss for name, loss in self.sums(outputs).items()}
        return {name: loss / normalizers["images"] for name, loss in losses.items()}

    def sums(self, outputs: TwoStageOutputs) -> dict[str, Tensor]:
        """The images' losses added up, by the names of their weights."""
        anchors, boxes = outputs.anchors, outputs.boxes
        truth = (anchors.labels > 0).float()
        objectness = F.binary_cross_entropy_with_logits(anchors.logits, truth, anchors.weights, reduction="sum")
        classes = F.cross_entropy(boxes.logits, boxes.labels, reduction="none")
        return {
            "objectness": objectness,
            "proposal_box": _of_deltas(anchors),
            "classification": (classes * boxes.weights).sum(),
            "box": _of_deltas(boxes),
        }


class MaskRcnnLoss(FasterRcnnLoss):
    """The losses of Mask R-CNN (He et al. 2017): also cross-entropy of the masks' pixels."""

    def sums(self, outputs: TwoStageOutputs) -> dict[str, Tensor]:
        assert outputs.masks is not None
        return {**super().sums(outputs), "mask": _of_masks(outputs.masks)}


def _of_deltas(judged: Judged) -> Tensor:
    loss = F.smooth_l1_loss(judged.deltas, judged.wanted, beta=SMOOTH, reduction="none")
    return (loss.sum(1) * judged.weights[judged.labels > 0]).sum()


def _of_masks(masks: JudgedMasks) -> Tensor:
    loss = F.binary_cross_entropy_with_logits(masks.logits, masks.wanted, reduction="none")
    return (loss.mean((1, 2)) * masks.weights).sum()
