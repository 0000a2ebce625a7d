"""Detected objects, and what is done with boxes: x1 y1 x2 y2 in pixels, pixel i reaching from i to i + 1."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Detections(NamedTuple):
    """Objects found in one view or image."""

    boxes: Tensor  # (N, 4) float32
    scores: Tensor  # (N,) float32, 0 to 1
    labels: Tensor  # (N,) int64 class indices
    extent: tuple[int, int]  # (height, width) of the tensor or image that they were found in, padding included
    masks: Tensor | None = None  # (N, S, S) float32 probabilities on a grid over `frames`
    frames: Tensor | None = None  # (N, 4) float32 boxes that the masks belong to; like `boxes`, but never clipped


def nothing(extent: tuple[int, int]) -> Detections:
    """No objects, on the CPU."""
    return Detections(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.int64), extent)


def chosen(found: Detections, index: Tensor) -> Detections:
    """The detections at an index (K,), or where a mask (N,) is true."""
    masks, frames = (None if part is None else part[index] for part in (found.masks, found.frames))
    return Detections(found.boxes[index], found.scores[index], found.labels[index], found.extent, masks, frames)


def strongest(found: Detections, limit: int) -> Detections:
    """The detections by falling score, at most `limit`; equal scores stay in order."""
    return chosen(found, found.scores.argsort(descending=True, stable=True)[:limit])


def joined(parts: Sequence[Detections]) -> Detections:
    """The detections of one or more parts of the same extent, one after the other."""
    parts = [part for part in parts if len(part.boxes)] or parts[:1]  # empty ones may come without masks
    boxes, scores, labels = (torch.cat(group) for group in list(zip(*parts, strict=True))[:3])
    masks, frames = _cat([part.masks for part in parts]), _cat([part.frames for part in parts])
    return Detections(boxes, scores, labels, parts[0].extent, masks, frames)


def _cat(parts: Sequence[Tensor | None]) -> Tensor | None:
    tensors = [part for part in parts if part is not None]
    return torch.cat(tensors) if tensors else None


def turned(found: Detections, flip: tuple[int, ...]) -> Detections:
    """The detections in the tensor (C, H, W) flipped along the dimensions `flip`, 1 or 2, or both."""
    for dim in flip:
        axis = 2 - dim  # of x, y
        found = found._replace(boxes=_mirrored(found.boxes, axis, found.extent[dim - 1]))
        if found.frames is not None:
            found = found._replace(frames=_mirrored(found.frames, axis, found.extent[dim - 1]))
    return found if found.masks is None or not flip else found._replace(masks=found.masks.flip(flip))


def _mirrored(boxes: Tensor, axis: int, length: int) -> Tensor:
    result = boxes.clone()
    result[:, axis], result[:, axis + 2] = length - boxes[:, axis + 2], length - boxes[:, axis]
    return result


def areas(boxes: Tensor) -> Tensor:
    """Areas (N,) of boxes (N, 4), square pixels."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def intersections(boxes: Tensor, others: Tensor) -> Tensor:
    """Areas (N, M) that boxes (N, 4) and others (M, 4) have in common, square pixels."""
    low = torch.maximum(boxes[:, None, :2], others[:, :2])
    high = torch.minimum(boxes[:, None, 2:], others[:, 2:])
    return (high - low).clamp_(min=0).prod(-1)
