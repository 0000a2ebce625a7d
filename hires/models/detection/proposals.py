"""The first stage of two-stage detectors: anchors that say whether they hold an object become proposals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor
from torchvision.ops import batched_nms, clip_boxes_to_image, remove_small_boxes

from hires.interfaces import Target
from hires.ops.choices import Count, Share
from hires.ops.dense import OFFSETS, DenseOutputs, split_levels
from hires.ops.matching import match_anchors
from hires.ops.two_stage import Drawn, Judged, draw, judged
from hires.settings import Bounds, SettingError, Settings

SMALLEST = 1e-3  # side of a proposal, pixels


class Limits(NamedTuple):
    """How many boxes go on: the best of each level, and of an image after non-maximum suppression."""

    candidates: int
    proposals: int


@dataclass(frozen=True)
class ProposalSettings(Settings):
    """Which anchors become proposals, and which are learnt from."""

    convs: Annotated[int, Bounds(1, 8)] = 1
    candidates: Count = 2000
    proposals: Count = 2000
    evaluation_candidates: Count = 1000
    evaluation_proposals: Count = 1000
    nms_iou: Share = 0.7
    object_iou: Share = 0.7
    background_iou: Share = 0.3
    samples: Count = 256
    object_share: Share = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.background_iou > self.object_iou:
            allowed = f"at most object_iou, {self.object_iou}"
            raise SettingError("background_iou", self.background_iou, allowed)

    @property
    def training_limits(self) -> Limits:
        return Limits(self.candidates, self.proposals)

    @property
    def evaluation_limits(self) -> Limits:
        return Limits(self.evaluation_candidates, self.evaluation_proposals)

    def draw(self, anchors: list[Tensor], target: Target) -> Drawn:
        """The anchors that are learnt from in an image."""
        every = torch.cat(anchors)
        low, high = self.background_iou, self.object_iou
        objects = match_anchors(every, target["boxes"], target["ignored"], low, high)
        return draw(every, objects, self.samples, self.object_share)


def dense_outputs(said: tuple[list[Tensor], list[Tensor]], anchors: list[Tensor]) -> DenseOutputs:
    """Maps (B, n, h, w) and (B, 4n, h, w) of every level as logits (B, A, 1) and deltas (B, A, 4)."""
    logits = [level.permute(0, 2, 3, 1).flatten(1) for level in said[0]]
    deltas = [level.permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, 4)) for level in said[1]]
    return DenseOutputs(torch.cat(logits, dim=1)[..., None], torch.cat(deltas, dim=1), anchors)


@torch.no_grad()
def propose(outputs: DenseOutputs, extent: tuple[int, int], limits: Limits, iou: float) -> list[Tensor]:
    """The proposals (n, 4) in each image of (height, width) pixels, best first."""
    return [
        _propose(logits[:, 0].float(), deltas.float(), outputs.anchors, extent, limits, iou)
        for logits, deltas in zip(outputs.logits, outputs.deltas, strict=True)
    ]


def _propose(
    logits: Tensor, deltas: Tensor, anchors: list[Tensor], extent: tuple[int, int], limits: Limits, iou: float
) -> Tensor:
    found = []
    levels = split_levels(logits, anchors), split_levels(deltas, anchors)
    for number, (level, logit, delta) in enumerate(zip(anchors, *levels, strict=True)):
        best, order = logit.topk(min(len(logit), limits.candidates))
        boxes = OFFSETS.decode_single(delta[order], level[order])
        found.append((boxes, best.sigmoid(), torch.full_like(order, number)))
    boxes, scores, numbers = (torch.cat(parts) for parts in zip(*found, strict=True))
    boxes = clip_boxes_to_image(boxes, extent)
    large = remove_small_boxes(boxes, SMALLEST)
    kept = batched_nms(boxes[large], scores[large], numbers[large], iou)[: limits.proposals]
    return boxes[large][kept]


def judge_anchors(outputs: DenseOutputs, drawn: Sequence[Drawn], targets: Sequence[Target]) -> Judged:
    """What is said of the drawn anchors of each image."""
    logits = [logits[some.indices, 0] for logits, some in zip(outputs.logits, drawn, strict=True)]
    deltas = [deltas[some.indices[some.matched]] for deltas, some in zip(outputs.deltas, drawn, strict=True)]
    return judged(torch.cat(logits), torch.cat(deltas), drawn, targets, OFFSETS)
