"""Losses of dense detectors: sums over anchors, divided by the matched anchors of the whole optimizer batch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import generalized_box_iou_loss, sigmoid_focal_loss

from hires.interfaces import Target
from hires.ops.dense import OFFSETS, SIDES, DenseOutputs
from hires.ops.matching import IGNORED, match_anchors, match_points
from hires.settings import Bounds, SettingError, Settings

SMOOTH = 1 / 9  # deltas below which smooth L1 is quadratic
Weight = Annotated[float, Bounds(0)]
AnchorsOf = Callable[[tuple[int, int]], list[Tensor]]
"""The anchors of each level for images of (height, width) pixels."""


@dataclass(frozen=True)
class FcosLossSettings(Settings):
    """Weights of the losses of FCOS, and which points belong to an object."""

    task = "fcos"

    classification: Weight = 1.0
    box: Weight = 1.0
    centerness: Weight = 1.0
    focal_alpha: Annotated[float, Bounds(0, 1)] = 0.25
    focal_gamma: Annotated[float, Bounds(0)] = 2.0
    center_radius: Annotated[float, Bounds(0.5)] = 1.5  # strides

    def build(self) -> "FcosLoss":
        return FcosLoss(self)


@dataclass(frozen=True)
class RetinaNetLossSettings(Settings):
    """Weights of the losses of RetinaNet, and which anchors belong to an object."""

    task = "retinanet"

    classification: Weight = 1.0
    box: Weight = 1.0
    box_loss: Literal["l1", "smooth_l1", "giou"] = "l1"
    focal_alpha: Annotated[float, Bounds(0, 1)] = 0.25
    focal_gamma: Annotated[float, Bounds(0)] = 2.0
    object_iou: Annotated[float, Bounds(0, 1)] = 0.5
    background_iou: Annotated[float, Bounds(0, 1)] = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.background_iou > self.object_iou:
            raise SettingError("background_iou", self.background_iou, f"at most object_iou, {self.object_iou}")

    def build(self) -> "RetinaNetLoss":
        return RetinaNetLoss(self)


class DenseLoss(nn.Module, ABC):
    """Sigmoid focal loss (Lin et al. 2017) of every anchor that is not ignored, and losses of the matched ones."""

    unit_names: tuple[str, ...] = ()  # a unit of the memory policies as a whole

    def __init__(self, settings: Any):
        """`settings` have `classification`, its weight, `focal_alpha` and `focal_gamma`."""
        super().__init__()
        self.settings = settings

    @abstractmethod
    def match(self, anchors: list[Tensor], target: Target) -> Tensor:
        """The object of each anchor, (A,) int64, or BACKGROUND or IGNORED."""

    @abstractmethod
    def of_matched(self, outputs: DenseOutputs, index: tuple[Tensor, ...], boxes: Tensor) -> dict[str, Tensor]:
        """Sums over the matched anchors at `index` (image, anchor), whose objects have `boxes` (n, 4)."""

    def normalizers(self, targets: list[Target], anchors_of: AnchorsOf) -> dict[str, Tensor]:
        """Matched anchors of these targets; those of disjoint lists add up."""
        sizes = [tuple(target["size"].tolist()) for target in targets]
        device = targets[0]["boxes"].device
        anchors = {size: [level.to(device) for level in anchors_of(size)] for size in set(sizes)}
        matched = [self.match(anchors[size], target) for size, target in zip(sizes, targets, strict=True)]
        return {"matched": torch.stack([(m >= 0).sum() for m in matched]).sum()}

    def forward(
        self, outputs: DenseOutputs, targets: list[Target], normalizers: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        matched = torch.stack([self.match(outputs.anchors, target) for target in targets])
        index = torch.where(matched >= 0)
        boxes = torch.cat([t["boxes"][m[m >= 0]] for t, m in zip(targets, matched, strict=True)])
        labels = torch.cat([t["labels"][m[m >= 0]] for t, m in zip(targets, matched, strict=True)])
        losses = {"classification": self._classification(outputs.logits, matched, index, labels)}
        losses |= self.of_matched(outputs, index, boxes)
        number = normalizers["matched"].clamp(min=1)
        return {name: loss / number for name, loss in losses.items()}

    def _classification(
        self, logits: Tensor, matched: Tensor, index: tuple[Tensor, ...], labels: Tensor
    ) -> Tensor:
        logits = logits.float()
        truth = torch.zeros_like(logits)
        truth[(*index, labels)] = 1
        settings = self.settings
        loss = sigmoid_focal_loss(logits, truth, alpha=settings.focal_alpha, gamma=settings.focal_gamma)
        return settings.classification * (loss * (matched != IGNORED)[..., None]).sum()


class FcosLoss(DenseLoss):
    """The losses of FCOS (Tian et al. 2019): also GIoU of the boxes, and cross-entropy of the centre-ness."""

    settings: FcosLossSettings

    def match(self, anchors: list[Tensor], target: Target) -> Tensor:
        return match_points(anchors, target["boxes"], target["ignored"], self.settings.center_radius)

    def of_matched(self, outputs: DenseOutputs, index: tuple[Tensor, ...], boxes: Tensor) -> dict[str, Tensor]:
        assert outputs.centerness is not None
        anchors = torch.cat(outputs.anchors)[index[1]]
        found = SIDES.decode(outputs.deltas[index].float(), anchors)
        truth = centerness(SIDES.encode(anchors, boxes))
        said = outputs.centerness[index].float()
        return {
            "box": self.settings.box * generalized_box_iou_loss(found, boxes, reduction="sum"),
            "centerness": self.settings.centerness
            * F.binary_cross_entropy_with_logits(said, truth, reduction="sum"),
        }


class RetinaNetLoss(DenseLoss):
    """The losses of RetinaNet (Lin et al. 2017): also L1, smooth L1 or GIoU of the boxes."""

    settings: RetinaNetLossSettings

    def match(self, anchors: list[Tensor], target: Target) -> Tensor:
        low, high = self.settings.background_iou, self.settings.object_iou
        return match_anchors(torch.cat(anchors), target["boxes"], target["ignored"], low, high)

    def of_matched(self, outputs: DenseOutputs, index: tuple[Tensor, ...], boxes: Tensor) -> dict[str, Tensor]:
        anchors = torch.cat(outputs.anchors)[index[1]]
        return {"box": self.settings.box * self._box(outputs.deltas[index].float(), anchors, boxes)}

    def _box(self, deltas: Tensor, anchors: Tensor, boxes: Tensor) -> Tensor:
        if self.settings.box_loss == "giou":
            return generalized_box_iou_loss(OFFSETS.decode_single(deltas, anchors), boxes, reduction="sum")
        wanted = OFFSETS.encode_single(boxes, anchors)
        beta = SMOOTH if self.settings.box_loss == "smooth_l1" else 0.0
        return F.smooth_l1_loss(deltas, wanted, reduction="sum", beta=beta)


def centerness(sides: Tensor) -> Tensor:
    """How central a point is, (n,) from 0 to 1, by its distances (n, 4) to left, top, right and bottom."""
    across, down = sides[:, [0, 2]], sides[:, [1, 3]]
    return torch.sqrt(across.amin(1) / across.amax(1) * (down.amin(1) / down.amax(1)))
