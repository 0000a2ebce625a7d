"""Weighted boxes fusion: what several views say of an object becomes one box."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hires.ops.boxes import Detections, chosen

_TINY = 1e-9  # weight of a score of 0


class _Clusters(NamedTuple):
    """Fused boxes of one class."""

    boxes: np.ndarray  # (K, 4) means of the members' boxes, weighted by score
    scores: np.ndarray  # (K,) means of the members' scores
    counts: np.ndarray  # (K,) of members
    first: np.ndarray  # (K,) index of the surest member


def fuse(found: Detections, iou: float, viewers: Callable[[Tensor], Tensor]) -> tuple[Detections, Tensor]:
    """Weighted boxes fusion (Solovyev, Wang, Gabruseva 2021) of each class, and the surest member (K,) of each.

    By falling score each detection joins the cluster whose fused box it overlaps most, by more than `iou`, or
    opens one. A fused box is the mean of its members' boxes weighted by score; its score is their mean, times
    min(members, N) / N as in the paper. There N is the number of models, which all see the whole image; here
    it is the number of views that can have found the box, as `viewers` counts for boxes (K, 4): so what a
    single window shows needs no second witness, and a view that shows an object and misses it counts against
    it. Mask and frame are those of the surest member.
    """
    boxes, scores, labels = (part.double().cpu().numpy() for part in found[:3])
    order = np.argsort(-scores, kind="stable")
    groups = [order[labels[order] == label] for label in np.unique(labels)]
    clusters = [_clusters(boxes[group], scores[group], iou) for group in groups]
    if not groups:
        return found, torch.zeros_like(found.labels)
    firsts = np.concatenate([group[part.first] for group, part in zip(groups, clusters, strict=True)])
    surest = torch.from_numpy(firsts).to(found.labels.device)
    fused, means, counts = (
        torch.from_numpy(np.concatenate(part)).to(found.boxes) for part in list(zip(*clusters, strict=True))[:3]
    )
    possible = viewers(fused).clamp(min=1)
    means *= torch.minimum(counts, possible) / possible
    return chosen(found, surest)._replace(boxes=fused, scores=means), surest


def _clusters(boxes: np.ndarray, scores: np.ndarray, iou: float) -> _Clusters:
    """Fuses boxes (N, 4) of one class in falling order of score."""
    count = 0
    sums, totals = np.zeros_like(boxes), np.zeros_like(scores)
    fused = np.zeros((5, len(boxes)))  # the corners in rows, and the area
    counts, first = np.zeros(len(boxes), np.int64), np.zeros(len(boxes), np.int64)
    for index, (box, weight) in enumerate(zip(boxes, scores.clip(min=_TINY), strict=True)):
        overlaps = _overlaps(box, fused[:, :count])
        best = int(overlaps.argmax()) if count else 0
        if not count or overlaps[best] <= iou:
            best, count = count, count + 1
            first[best] = index
        sums[best] += box * weight
        totals[best] += weight
        counts[best] += 1
        fused[:4, best] = sums[best] / totals[best]
        fused[4, best] = _area(fused[:4, best])
    return _Clusters(fused[:4, :count].T, totals[:count] / counts[:count], counts[:count], first[:count])


def _overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union (N,) of a box (4,) with others (5, N), whose last row is their area."""
    width = np.minimum(box[2], others[2]) - np.maximum(box[0], others[0])
    height = np.minimum(box[3], others[3]) - np.maximum(box[1], others[1])
    common = np.maximum(width, 0) * np.maximum(height, 0)
    return common / (_area(box) + others[4] - common)


def _area(box: np.ndarray) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
