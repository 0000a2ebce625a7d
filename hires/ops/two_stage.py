"""Two-stage detectors: boxes drawn in each image, and what the network says of them, for the loss to read."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.models.detection._utils import BalancedPositiveNegativeSampler, BoxCoder
from torchvision.ops import roi_align

from hires.interfaces import Target
from hires.ops.matching import IGNORED

_OBJECTS = 16  # whose masks are floats at once


class Drawn(NamedTuple):
    """Boxes drawn in one image."""

    indices: Tensor  # (n,) int64, into the boxes that they were drawn from
    boxes: Tensor  # (n, 4) float32
    objects: Tensor  # (n,) int64 index of the object that each is to find, or BACKGROUND

    @property
    def matched(self) -> Tensor:
        """(n,) bool: whether there is an object to find."""
        return self.objects >= 0


class Judged(NamedTuple):
    """What a stage says of n drawn boxes of a batch, p of which have an object, and what is true."""

    logits: Tensor  # (n,) float32, of an object; or (n, K + 1), of the classes, background first
    labels: Tensor  # (n,) int64: 0 for background, or class + 1
    deltas: Tensor  # (p, 4) float32
    wanted: Tensor  # (p, 4) float32
    weights: Tensor  # (n,) float32: 1 / boxes drawn in the image


class JudgedMasks(NamedTuple):
    """What is said of the masks of p drawn boxes with objects, and what is true."""

    logits: Tensor  # (p, S, S) float32
    wanted: Tensor  # (p, S, S) float32, 0 to 1
    weights: Tensor  # (p,) float32: 1 / boxes with objects in the image


class TwoStageOutputs(NamedTuple):
    """What is learnt from."""

    anchors: Judged
    boxes: Judged
    masks: JudgedMasks | None = None


class Proposed(NamedTuple):
    """What detections are chosen from: R proposals of all images."""

    proposals: list[Tensor]  # (r, 4) float32 boxes of each image; together R
    logits: Tensor  # (R, K + 1), background first
    deltas: Tensor  # (R, K + 1, 4)
    features: list[Tensor]  # the levels that regions are pooled from


def draw(boxes: Tensor, objects: Tensor, number: int, share: float) -> Drawn:
    """At most `number` of the boxes (N, 4) that are not IGNORED, at most `share` of them with `objects` (N,) >= 0.

    Draws from torch's global generator.
    """
    kinds = (objects >= 0).long() - (objects == IGNORED).long()
    positive, negative = BalancedPositiveNegativeSampler(number, share)([kinds])
    indices = torch.where(positive[0] | negative[0])[0]
    return Drawn(indices, boxes[indices], objects[indices])


def labels_of(drawn: Sequence[Drawn], targets: Sequence[Target]) -> Tensor:
    """0 for background, or class + 1, of the boxes drawn in all images."""
    labels = [torch.zeros_like(some.objects) for some in drawn]
    for label, some, target in zip(labels, drawn, targets, strict=True):
        label[some.matched] = target["labels"][some.objects[some.matched]] + 1
    return torch.cat(labels)


def judged(
    logits: Tensor, deltas: Tensor, drawn: Sequence[Drawn], targets: Sequence[Target], coder: BoxCoder
) -> Judged:
    """Logits of the boxes drawn in all images, and deltas (p, 4) of those with objects, beside the truth."""
    wanted = [
        coder.encode_single(target["boxes"][some.objects[some.matched]], some.boxes[some.matched])
        for some, target in zip(drawn, targets, strict=True)
    ]
    weights = shares([some.objects for some in drawn])
    return Judged(logits.float(), labels_of(drawn, targets), deltas.float(), torch.cat(wanted), weights)


def shares(parts: Sequence[Tensor]) -> Tensor:
    """1 / length of its part for each entry of all parts, float32."""
    return torch.cat([torch.full((len(p),), 1 / max(len(p), 1), device=p.device) for p in parts])


def masks_in_boxes(masks: Tensor, boxes: Tensor, objects: Tensor, side: int) -> Tensor:
    """The masks (N, H, W) of the `objects` (p,), seen through boxes (p, 4): (p, side, side) float32, 0 to 1."""
    result = boxes.new_zeros(len(boxes), side, side)
    for some in objects.unique().split(_OBJECTS):
        if not len(some):
            break
        rows = torch.where(torch.isin(objects, some))[0]
        places = torch.searchsorted(some, objects[rows])
        regions = torch.cat([places[:, None].float(), boxes[rows]], dim=1)
        result[rows] = roi_align(masks[some][:, None].float(), regions, side)[:, 0]
    return result
