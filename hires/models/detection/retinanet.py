"""RetinaNet: anchors at every position of every level, each of which says its class and how to become a box."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn
from torchvision.models.detection.retinanet import RetinaNetHead

from hires.interfaces import Target
from hires.models.backbone import Backbone
from hires.models.detection.anchors import AnchorSettings
from hires.models.detection.network import DenseNetwork, DetectionNetworkSettings
from hires.models.norm import group_count
from hires.ops.dense import OFFSETS, DenseOutputs


@dataclass(frozen=True)
class RetinaNetSettings(DetectionNetworkSettings):
    """Shape of a RetinaNet (Lin et al. 2017), with the heads of torchvision."""

    task = "retinanet"

    anchors: AnchorSettings = field(default_factory=AnchorSettings)
    head_norm: Literal["none", "group"] = "none"

    def network(self, backbone: Backbone, num_classes: int) -> "RetinaNet":
        neck = self.neck.build(backbone)
        anchors = self.anchors.build(neck.strides)
        norm: Callable[[int], nn.Module] | None = _group_norm if self.head_norm == "group" else None
        head = RetinaNetHead(neck.channels, anchors.per_position, num_classes, norm)
        return RetinaNet(backbone=backbone, neck=neck, anchors=anchors, head=head)


class RetinaNet(DenseNetwork):
    """Deltas are the offset of the centre in sides of the anchor, and the logarithm of the sides' ratios."""

    def forward(self, x: Tensor, targets: list[Target] | None = None) -> DenseOutputs:
        said = self.head(self.features(x))
        anchors = self.anchors_of((x.shape[-2], x.shape[-1]))
        return DenseOutputs(said["cls_logits"], said["bbox_regression"], anchors)

    def scores(self, outputs: DenseOutputs) -> Tensor:
        return outputs.logits.float().sigmoid()

    def decode(self, deltas: Tensor, anchors: Tensor) -> Tensor:
        return OFFSETS.decode_single(deltas, anchors)


def _group_norm(channels: int) -> nn.Module:
    return nn.GroupNorm(group_count(channels), channels)
