"""Faster R-CNN: proposals from anchors, then a look at the region of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torchvision.models.detection.rpn import RPNHead

from hires.interfaces import Target
from hires.models.backbone import Backbone
from hires.models.detection.anchors import Anchors, AnchorSettings
from hires.models.detection.neck import Neck, NeckSettings
from hires.models.detection.network import DetectionNetwork, DetectionNetworkSettings
from hires.models.detection.proposals import ProposalSettings, dense_outputs, judge_anchors, propose
from hires.models.detection.regions import RegionSettings, choose, judge_boxes
from hires.models.trial import Trial, try_forward
from hires.ops.boxes import Detections
from hires.ops.dense import Choice, DenseOutputs
from hires.ops.two_stage import Drawn, JudgedMasks, Proposed, TwoStageOutputs

LEVELS = NeckSettings(levels=(2, 3, 4, 5), extra_levels=1, extra="pool")
ANCHORS = AnchorSettings(size_in_strides=8.0, scales=(1.0,))


@dataclass(frozen=True)
class FasterRcnnSettings(DetectionNetworkSettings):
    """Shape of a Faster R-CNN (Ren et al. 2015) on a feature pyramid, with the heads of torchvision."""

    task = "faster_rcnn"

    neck: NeckSettings = field(default=LEVELS)
    anchors: AnchorSettings = field(default=ANCHORS)
    proposals: ProposalSettings = field(default_factory=ProposalSettings)
    regions: RegionSettings = field(default_factory=RegionSettings)

    def network(self, backbone: Backbone, num_classes: int) -> "FasterRcnn":
        return self.assemble(backbone, num_classes, FasterRcnn, {})

    def assemble(
        self, backbone: Backbone, num_classes: int, kind: "type[FasterRcnn]", further: dict[str, nn.Module]
    ) -> "FasterRcnn":
        """A network with `further` heads after those that every two-stage detector has."""
        neck = self.neck.build(backbone)
        anchors = self.anchors.build(neck.strides)
        heads = {
            "rpn": RPNHead(neck.channels, anchors.per_position, self.proposals.convs),
            "box": self.regions.build(len(self.neck.levels), neck.channels, num_classes),
        }
        head, settings = nn.ModuleDict({**heads, **further}), BothSteps(self.proposals, self.regions)
        return kind(backbone=backbone, neck=neck, anchors=anchors, head=head, settings=settings)


class BothSteps(NamedTuple):
    """The settings of proposing and of looking at what was proposed."""

    proposals: ProposalSettings
    regions: RegionSettings


class FasterRcnn(DetectionNetwork):
    """In training, boxes are drawn in each image by itself, from torch's global generator, anchors first.

    So a batch draws the same boxes however it is split, as long as nothing else draws (dropout, drop path).
    """

    head: nn.ModuleDict

    def __init__(
        self, *, backbone: Backbone, neck: Neck, anchors: Anchors, head: nn.ModuleDict, settings: BothSteps
    ):
        super().__init__(backbone=backbone, neck=neck, anchors=anchors, head=head)
        self.settings = settings

    def forward(self, x: Tensor, targets: list[Target] | None = None) -> TwoStageOutputs | Proposed:
        features, extent = self.features(x), (x.shape[-2], x.shape[-1])
        outputs = self.dense(features, extent)
        features = features[: len(features) - len(self.neck.extra)]
        settings = self.settings.proposals
        limits = settings.evaluation_limits if targets is None else settings.training_limits
        proposals = propose(outputs, extent, limits, settings.nms_iou)
        if targets is None:
            logits, deltas = self.head["box"](features, proposals, extent)
            return Proposed(proposals, logits, deltas, features)
        return self._judged(features, extent, outputs, proposals, targets)

    def dense(self, features: list[Tensor], extent: tuple[int, int]) -> DenseOutputs:
        """What is said of every anchor."""
        return dense_outputs(self.head["rpn"](features), self.anchors_of(extent))

    def _judged(
        self,
        features: list[Tensor],
        extent: tuple[int, int],
        outputs: DenseOutputs,
        proposals: list[Tensor],
        targets: list[Target],
    ) -> TwoStageOutputs:
        anchors, boxes = self._drawn(outputs.anchors, proposals, targets)
        logits, deltas = self.head["box"](features, [some.boxes for some in boxes], extent)
        return TwoStageOutputs(
            anchors=judge_anchors(outputs, anchors, targets),
            boxes=judge_boxes(logits, deltas, boxes, targets),
            masks=self.judge_masks(features, boxes, targets, extent),
        )

    @torch.no_grad()
    def _drawn(
        self, anchors: list[Tensor], proposals: list[Tensor], targets: list[Target]
    ) -> tuple[list[Drawn], list[Drawn]]:
        both = [
            (self.settings.proposals.draw(anchors, target), self.settings.regions.draw(some, target))
            for some, target in zip(proposals, targets, strict=True)
        ]
        return [first for first, _ in both], [second for _, second in both]

    def judge_masks(
        self, features: list[Tensor], drawn: Sequence[Drawn], targets: list[Target], extent: tuple[int, int]
    ) -> JudgedMasks | None:
        """What is said of the masks of the drawn boxes: nothing here."""
        return None

    def detect(self, outputs: Proposed, extent: tuple[int, int], choice: Choice) -> list[Detections]:
        counts = [len(boxes) for boxes in outputs.proposals]
        parts = outputs.logits.split(counts), outputs.deltas.split(counts), outputs.proposals
        return [choose(*image, extent, choice) for image in zip(*parts, strict=True)]

    def check(self, trials: Sequence[Trial]) -> None:
        for trial in trials:  # what follows depends on values
            try_forward(_Dense(self), trial, channels=len(self.backbone.mean), name=self.backbone.name)


class _Dense(nn.Module):
    """A network up to its proposals."""

    def __init__(self, network: FasterRcnn):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> DenseOutputs:
        return self.network.dense(self.network.features(x), (x.shape[-2], x.shape[-1]))
