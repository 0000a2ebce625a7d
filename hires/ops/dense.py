"""Outputs of dense detectors, and the choice of detections among them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.models.detection._utils import BoxCoder, BoxLinearCoder
from torchvision.ops import batched_nms, clip_boxes_to_image

from hires.ops.boxes import Detections

SIDES = BoxLinearCoder(normalize_by_size=True)
"""Deltas are the distances from an anchor's centre to the sides, in sides of the anchor."""
OFFSETS = BoxCoder((1.0, 1.0, 1.0, 1.0))
"""Deltas are the way to the centre in sides of the anchor, and the logarithms of the ratios of the sides."""


class DenseOutputs(NamedTuple):
    """What the heads say of every anchor: B images, A anchors over all levels, K classes."""

    logits: Tensor  # (B, A, K)
    deltas: Tensor  # (B, A, 4), as the detector's box coder reads them
    anchors: list[Tensor]  # (a, 4) of each level, float32 boxes; together A
    centerness: Tensor | None = None  # (B, A) logits


class Choice(NamedTuple):
    """Which detections are kept."""

    score: float  # lower scores are dropped
    candidates: int  # of each level that non-maximum suppression sees
    iou: float  # of two boxes of a class, above which the lower score goes
    most: int  # detections of an image


class Candidates(NamedTuple):
    """Boxes before non-maximum suppression."""

    anchors: Tensor  # (n,) indices into a level's anchors
    scores: Tensor  # (n,)
    labels: Tensor  # (n,)


def candidates(scores: Tensor, choice: Choice) -> Candidates:
    """The best of a level's scores (a, K)."""
    flat = scores.flatten()
    above = torch.where(flat > choice.score)[0]
    best, order = flat[above].topk(min(len(above), choice.candidates))
    chosen = above[order]
    return Candidates(chosen // scores.shape[-1], best, chosen % scores.shape[-1])


def suppressed(
    boxes: Tensor, scores: Tensor, labels: Tensor, extent: tuple[int, int], choice: Choice
) -> Detections:
    """Boxes (n, 4) clipped to an image of (height, width), without those that a better one of the class covers."""
    boxes = clip_boxes_to_image(boxes.float(), extent)
    keep = batched_nms(boxes, scores.float(), labels, choice.iou)[: choice.most]
    return Detections(boxes[keep], scores[keep].float(), labels[keep], extent)


def split_levels(values: Tensor, anchors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Values (A, ...) of all anchors as one tensor for each level."""
    return values.split([len(level) for level in anchors])
