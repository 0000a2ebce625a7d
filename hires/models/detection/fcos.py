"""FCOS: one point at every position of every level, which knows its class and how far the sides of its box are."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torchvision.models.detection._utils import BoxLinearCoder
from torchvision.models.detection.fcos import FCOSHead

from hires.interfaces import Target
from hires.models.backbone import Backbone
from hires.models.detection.anchors import Anchors
from hires.models.detection.network import DetectionNetwork, DetectionNetworkSettings
from hires.ops.boxes import Detections
from hires.ops.dense import Choice, DenseOutputs, candidates, split_levels, suppressed
from hires.settings import Bounds, SettingError


@dataclass(frozen=True)
class FcosSettings(DetectionNetworkSettings):
    """Shape of an FCOS (Tian et al. 2019), with the heads of torchvision."""

    head_convs: Annotated[int, Bounds(1, 8)] = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neck.channels % 32:  # the heads' own norms have 32 groups
            raise SettingError("neck.channels", self.neck.channels, "multiples of 32")

    def network(self, backbone: Backbone, num_classes: int) -> "Fcos":
        neck = self.neck.build(backbone)
        anchors = Anchors(neck.strides, [[s] for s in neck.strides], [[1.0]] * len(neck.strides))
        head = FCOSHead(neck.channels, 1, num_classes, self.head_convs)
        return Fcos(backbone=backbone, neck=neck, anchors=anchors, head=head)


class Fcos(DetectionNetwork):
    """An anchor is the square of side `stride` around a point; deltas are distances to the sides in that unit."""

    def forward(self, x: Tensor, targets: list[Target] | None = None) -> DenseOutputs:
        said = self.head(self.features(x))
        return DenseOutputs(
            logits=said["cls_logits"],
            deltas=said["bbox_regression"],
            anchors=self.anchors_of((x.shape[-2], x.shape[-1])),
            centerness=said["bbox_ctrness"][..., 0],
        )

    def detect(self, outputs: DenseOutputs, extent: tuple[int, int], choice: Choice) -> list[Detections]:
        assert outputs.centerness is not None
        scores = torch.sqrt(outputs.logits.float().sigmoid() * outputs.centerness.float().sigmoid()[..., None])
        return [
            self._detect(score, deltas.float(), outputs.anchors, extent, choice)
            for score, deltas in zip(scores, outputs.deltas, strict=True)
        ]

    def _detect(
        self, scores: Tensor, deltas: Tensor, anchors: list[Tensor], extent: tuple[int, int], choice: Choice
    ) -> Detections:
        coder, found = BoxLinearCoder(normalize_by_size=True), []
        for level, score, delta in zip(
            anchors, split_levels(scores, anchors), split_levels(deltas, anchors), strict=True
        ):
            best = candidates(score, choice)
            found.append((coder.decode(delta[best.anchors], level[best.anchors]), best.scores, best.labels))
        boxes, scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
        return suppressed(boxes, scores, labels, extent, choice)
