"""The second stage of two-stage detectors: regions of the features say which object they hold."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torchvision.models.detection._utils import BoxCoder
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.ops import MultiScaleRoIAlign, clip_boxes_to_image, remove_small_boxes

from hires.interfaces import Target
from hires.models.network import Channels
from hires.ops.boxes import Detections
from hires.ops.choices import Count, Share
from hires.ops.dense import Choice, candidates, suppressed
from hires.ops.matching import match_anchors
from hires.ops.two_stage import Drawn, Judged, draw, judged, labels_of
from hires.settings import Settings

CODER = BoxCoder((10.0, 10.0, 5.0, 5.0))
SMALLEST = 1e-2  # side of a detection, pixels
_POINTS = 2  # sampled in each direction of a cell of a region


@dataclass(frozen=True)
class RegionSettings(Settings):
    """Shape of the box head, and which proposals are learnt from."""

    cells: Count = 7
    hidden: Channels = 1024
    object_iou: Share = 0.5
    samples: Count = 512
    object_share: Share = 0.25

    def build(self, levels: int, channels: int, num_classes: int) -> "BoxHead":
        """The head on features of so many levels and channels."""
        return BoxHead(
            pool=pooling(levels, self.cells),
            layers=TwoMLPHead(channels * self.cells**2, self.hidden),
            predictor=FastRCNNPredictor(self.hidden, num_classes + 1),
        )

    def draw(self, proposals: Tensor, target: Target) -> Drawn:
        """The proposals (n, 4) that are learnt from in an image; its objects' own boxes are among them."""
        every = torch.cat([proposals, target["boxes"][~target["ignored"]].float()])
        iou = self.object_iou
        objects = match_anchors(every, target["boxes"], target["ignored"], iou, iou, force=False)
        return draw(every, objects, self.samples, self.object_share)


def pooling(levels: int, cells: int) -> MultiScaleRoIAlign:
    """Pools regions from the level that suits their size."""
    return MultiScaleRoIAlign([str(level) for level in range(levels)], cells, _POINTS)


class BoxHead(nn.Module):
    """Boxes (r, 4) of each image, R in all, to logits (R, K + 1), background first, and deltas (R, K + 1, 4)."""

    def __init__(self, *, pool: MultiScaleRoIAlign, layers: nn.Module, predictor: nn.Module):
        super().__init__()
        self.pool, self.layers, self.predictor = pool, layers, predictor

    def forward(
        self, features: list[Tensor], boxes: list[Tensor], extent: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        logits, deltas = self.predictor(self.layers(_pooled(self.pool, features, boxes, extent)))
        return logits, deltas.unflatten(1, (-1, 4))


class MaskHead(nn.Module):
    """Boxes (r, 4) of each image, R in all, and the classes (R,) of their objects to logits (R, S, S) of masks."""

    side = 28  # S

    def __init__(self, *, levels: int, channels: int, num_classes: int, hidden: Sequence[int]):
        super().__init__()
        self.pool = pooling(levels, self.side // 2)
        self.layers = MaskRCNNHeads(channels, hidden, 1)
        self.predictor = MaskRCNNPredictor(hidden[-1], hidden[-1], num_classes)

    def forward(
        self, features: list[Tensor], boxes: list[Tensor], labels: Tensor, extent: tuple[int, int]
    ) -> Tensor:
        logits = self.predictor(self.layers(_pooled(self.pool, features, boxes, extent)))
        return logits[torch.arange(len(labels), device=labels.device), labels]


def _pooled(
    pool: MultiScaleRoIAlign, features: list[Tensor], boxes: list[Tensor], extent: tuple[int, int]
) -> Tensor:
    named = {str(level): values for level, values in enumerate(features)}
    return pool(named, boxes, [extent] * len(boxes))


def judge_boxes(logits: Tensor, deltas: Tensor, drawn: Sequence[Drawn], targets: Sequence[Target]) -> Judged:
    """What is said of the drawn boxes: logits (n, K + 1), deltas (n, K + 1, 4)."""
    labels = labels_of(drawn, targets)
    matched = torch.where(labels > 0)[0]
    return judged(logits, deltas[matched, labels[matched]], drawn, targets, CODER)


def choose(
    logits: Tensor, deltas: Tensor, proposals: Tensor, extent: tuple[int, int], choice: Choice
) -> Detections:
    """The objects among an image's proposals (n, 4) with logits (n, K + 1) and deltas (n, K + 1, 4)."""
    best = candidates(logits.float().softmax(-1)[:, 1:], choice)
    said = deltas[best.anchors, best.labels + 1].float()
    boxes = clip_boxes_to_image(CODER.decode_single(said, proposals[best.anchors]), extent)
    large = remove_small_boxes(boxes, SMALLEST)
    return suppressed(boxes[large], best.scores[large], best.labels[large], extent, choice)
