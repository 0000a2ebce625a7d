"""Which object each anchor is to find: indices into the boxes, BACKGROUND or IGNORED."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torchvision.ops import box_area, box_iou

BACKGROUND, IGNORED = -1, -2
_OBJECTS = 32  # compared at once: memory does not grow with the objects


def match_points(levels: Sequence[Tensor], boxes: Tensor, ignored: Tensor, radius: float) -> Tensor:
    """Assigns anchors (a, 4) of each level, squares around points, to boxes (N, 4), as FCOS does: (A,) int64.

    A point belongs to the smallest box that it lies in, less than `radius` anchor sides from its centre, if the
    farthest side is as far as the level is meant for: 4 to 8 anchor sides, less at the first level and more
    at the last. Points in an `ignored` (N,) box that belong to none are IGNORED.
    """
    anchors = torch.cat(list(levels))
    points, sides = (anchors[:, :2] + anchors[:, 2:]) / 2, anchors[:, 2] - anchors[:, 0]
    low, high = 4 * sides, 8 * sides
    low[: len(levels[0])] = 0
    high[len(sides) - len(levels[-1]) :] = float("inf")
    matched = torch.full((len(anchors),), BACKGROUND, device=anchors.device)
    smallest = torch.full((len(anchors),), float("inf"), device=anchors.device)
    for indices in _chunks(torch.where(~ignored)[0]):
        some = boxes[indices]
        from_sides = torch.cat([points[:, None] - some[:, :2], some[:, 2:] - points[:, None]], dim=-1)
        from_centre = (points[:, None] - (some[:, :2] + some[:, 2:]) / 2).abs().amax(-1)
        farthest = from_sides.amax(-1)
        fits = (from_sides.amin(-1) > 0) & (from_centre < radius * sides[:, None])
        fits &= (farthest > low[:, None]) & (farthest < high[:, None])
        area, best = torch.where(fits, box_area(some), float("inf")).min(dim=1)
        closer = area < smallest
        matched[closer], smallest[closer] = indices[best[closer]], area[closer]
    for indices in _chunks(torch.where(ignored)[0]):
        matched[(matched == BACKGROUND) & _inside(points, boxes[indices]).any(1)] = IGNORED
    return matched


def match_anchors(
    anchors: Tensor, boxes: Tensor, ignored: Tensor, low: float, high: float, *, force: bool = True
) -> Tensor:
    """Assigns anchors (A, 4) to the boxes (N, 4) that they overlap most, as RetinaNet and RPN do: (A,) int64.

    Above an IoU of `high` an anchor is a box's, below `low` background, between them IGNORED; with `force` the
    best anchors of every box count as if above. Background anchors of which half lies in an `ignored` (N,)
    box are IGNORED.
    """
    best_iou = torch.zeros(len(anchors), device=anchors.device)
    matched = torch.full((len(anchors),), BACKGROUND, device=anchors.device)
    forced = torch.zeros(len(anchors), dtype=torch.bool, device=anchors.device)
    for indices in _chunks(torch.where(~ignored)[0]):
        iou = box_iou(anchors, boxes[indices])
        most, best = iou.max(dim=1)
        better = most > best_iou
        matched[better], best_iou[better] = indices[best[better]], most[better]
        if force:
            forced |= ((iou == iou.amax(0)) & (iou > 0)).any(1)
    assigned = torch.where((best_iou >= high) | forced, matched, IGNORED)
    assigned[(best_iou < low) & ~forced] = BACKGROUND
    for indices in _chunks(torch.where(ignored)[0]):
        half = _shares(anchors, boxes[indices]).amax(1) >= 0.5
        assigned[(assigned == BACKGROUND) & half] = IGNORED
    return assigned


def _chunks(indices: Tensor) -> Iterator[Tensor]:
    yield from (chunk for chunk in indices.split(_OBJECTS) if len(chunk))


def _inside(points: Tensor, boxes: Tensor) -> Tensor:
    """(P, N) bool: whether points (P, 2) lie in boxes (N, 4)."""
    return ((points[:, None] > boxes[:, :2]) & (points[:, None] < boxes[:, 2:])).all(-1)


def _shares(anchors: Tensor, boxes: Tensor) -> Tensor:
    """(A, N): how much of each anchor lies in each box."""
    corner = torch.minimum(anchors[:, None, 2:], boxes[:, 2:]) - torch.maximum(anchors[:, None, :2], boxes[:, :2])
    return corner.clamp(min=0).prod(-1) / box_area(anchors)[:, None]
