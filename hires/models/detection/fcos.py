"""FCOS: one point at every position of every level, which knows its class and how far the sides of its box are."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torchvision.models.detection.fcos import FCOSHead

from hires.interfaces import Target
from hires.models.backbone import Backbone
from hires.models.detection.anchors import Anchors
from hires.models.detection.network import DenseNetwork, DetectionNetworkSettings
from hires.ops.dense import SIDES, DenseOutputs
from hires.settings import Bounds, SettingError


@dataclass(frozen=True)
class FcosSettings(DetectionNetworkSettings):
    """Shape of an FCOS (Tian et al. 2019), with the heads of torchvision."""

    task = "fcos"

    head_convs: Annotated[int, Bounds(1, 8)] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neck.channels % 32 or self.neck.channels < 64:  # the heads' own norms have 32 groups
            raise SettingError("neck.channels", self.neck.channels, "multiples of 32 from 64 on")

    def network(self, backbone: Backbone, num_classes: int) -> "Fcos":
        neck = self.neck.build(backbone)
        anchors = Anchors(neck.strides, [[s] for s in neck.strides], [[1.0]] * len(neck.strides))
        head = FCOSHead(neck.channels, 1, num_classes, self.head_convs)
        return Fcos(backbone=backbone, neck=neck, anchors=anchors, head=head)


class Fcos(DenseNetwork):
    """An anchor is the square of side `stride` around a point; deltas are distances to the sides in that unit."""

    def forward(self, x: Tensor, targets: list[Target] | None = None) -> DenseOutputs:
        said = self.head(self.features(x))
        return DenseOutputs(
            logits=said["cls_logits"],
            deltas=said["bbox_regression"],
            anchors=self.anchors_of((x.shape[-2], x.shape[-1])),
            centerness=said["bbox_ctrness"][..., 0],
        )

    def scores(self, outputs: DenseOutputs) -> Tensor:
        assert outputs.centerness is not None
        return torch.sqrt(outputs.logits.float().sigmoid() * outputs.centerness.float().sigmoid()[..., None])

    def decode(self, deltas: Tensor, anchors: Tensor) -> Tensor:
        return SIDES.decode(deltas, anchors)
