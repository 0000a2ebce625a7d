"""Widths and heights of boxes, and the few that stand for many of them."""

import torch
from torch import Tensor

_MOST = 20_000  # shapes that a clustering looks at
_ROUNDS = 100


def shapes_of(boxes: Tensor) -> Tensor:
    """Widths and heights (N, 2) of boxes (N, 4), one pixel at least."""
    return (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)


def centred(shapes: Tensor) -> Tensor:
    """Boxes (N, 4) of shapes (N, 2) around the origin."""
    return torch.cat([-shapes, shapes], dim=1) / 2


def shape_iou(shapes: Tensor, others: Tensor) -> Tensor:
    """IoU (N, M) of shapes (N, 2) and (M, 2) with a common centre."""
    common = torch.minimum(shapes[:, None], others).prod(-1)
    return common / (shapes.prod(-1)[:, None] + others.prod(-1) - common)


def recall(shapes: Tensor, anchors: Tensor, iou: float = 0.5) -> float:
    """Share of the shapes (N, 2) that an anchor (M, 2) reaches this IoU with at the best position."""
    hit = [(shape_iou(part, anchors).amax(1) >= iou).float().sum() for part in shapes.split(_MOST)]
    return float(torch.stack(hit).sum() / len(shapes))


def clusters(shapes: Tensor, number: int) -> Tensor:
    """The `number` shapes, by area, that N >= number shapes (N, 2) are nearest to: k-means by 1 - IoU.

    The distance is that of YOLOv2 (Redmon and Farhadi 2017); a centre is the geometric mean of its shapes.
    Begins at quantiles of the area: the same shapes give the same result.
    """
    ordered = shapes[shapes.prod(1).argsort(stable=True)]
    ordered = ordered[:: max(1, len(ordered) // _MOST)]
    centres = ordered[((torch.arange(number) + 0.5) / number * len(ordered)).long()]
    nearest = torch.full((len(ordered),), -1)
    for _ in range(_ROUNDS):
        before, nearest = nearest, shape_iou(ordered, centres).argmax(1)
        if torch.equal(before, nearest):
            break
        counts = torch.bincount(nearest, minlength=number)
        sums = torch.zeros_like(centres).index_add_(0, nearest, ordered.log())
        centres = torch.where(counts[:, None] > 0, (sums / counts[:, None]).exp(), centres)
    return centres[centres.prod(1).argsort(stable=True)]
