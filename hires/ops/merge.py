"""Merges what was found in the views of an image: windows, flips and scales."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import batched_nms

from hires.interfaces import View, Window
from hires.ops.boxes import Detections, areas, chosen, intersections, joined, nothing, strongest
from hires.ops.fusion import fuse
from hires.ops.view_boxes import NEAR, is_cut, placed, showing, showing_whole
from hires.ops.windows import Size

_WHOLE_IMAGE = -1  # number of the window of overviews
_MOST = 0.5  # share of a cut box: with more inside another box than outside, it is rather a part of that


class Placed(NamedTuple):
    """Detections in pixels of the image, with the window that each was found in."""

    found: Detections
    window: Tensor  # (N,) int64: equal numbers, equal windows


Found = tuple[View, Detections]
"""A view, and what was found in it, in pixels of the image."""


def merge(
    size: Size, predictions: Iterable[tuple[View, Detections]], *, how: str, iou: float, max_detections: int
) -> Detections:
    """The objects of an image of (height, width) pixels from the detections in its views, by falling score.

    `how`: `nms` suppresses (of each class, all that overlap a surer one by more than `iou`), `wbf` fuses (see
    `fuse`). Boxes cut by a border of their window that is not one of the image yield to whole ones: whole ones
    are merged first. A cut one is dropped if it overlaps a whole one of its class by more than `iou`, or if most
    of it lies in one that another window shows (its own window shows them as two). The others are parts of
    objects that no window shows whole: they are merged, and yield to larger parts in the same way. An overview,
    whose pixels are coarse, adds what no window shows whole; of all else what windows say stays as it is.
    """
    windows: list[Found] = []
    overviews: list[Found] = []
    for view, found in predictions:
        (overviews if view.overview else windows).append((view, placed(view, found, size)))
    if not windows:
        return nothing(size)
    views = [view for view, _ in windows]
    seen, cut = _gathered(windows, size)
    whole = _merged(_at(seen, ~cut), how, iou, lambda boxes: showing_whole(boxes, views, size))
    if overviews:
        whole = _with_large(whole, overviews, views, size, how, iou)
    rest = _at(seen, cut)
    rest = _at(rest, ~_yields(rest, whole, iou))
    rest = _merged(rest, how, iou, lambda boxes: showing(boxes, views))
    rest = _at(rest, ~_yields(rest, rest, iou, larger_only=True))
    return strongest(joined([whole.found, rest.found]), max_detections)


def _gathered(parts: list[Found], size: Size) -> tuple[Placed, Tensor]:
    """All detections, and which of them (N,) are cut."""
    numbers: dict[Window, int] = {}
    windows = [torch.full_like(f.labels, numbers.setdefault(view.window, len(numbers))) for view, f in parts]
    cut = [is_cut(found.boxes, view, size) for view, found in parts]
    return Placed(joined([found for _, found in parts]), torch.cat(windows)), torch.cat(cut)


def _with_large(
    whole: Placed, overviews: list[Found], views: list[View], size: Size, how: str, iou: float
) -> Placed:
    """What windows show whole, and what overviews add to it.

    A box counts as shown by a window only with room for what an overview may have missed of it.
    """
    view, seen = overviews[0][0], _gathered(overviews, size)[0]
    slack = NEAR * max(view.window.height / view.height, view.window.width / view.width)
    grown = seen.found.boxes + seen.found.boxes.new_tensor([-slack, -slack, slack, slack])
    seen = _at(seen, showing_whole(grown, views, size) == 0)
    large = _merged(seen, how, iou, lambda boxes: torch.full((len(boxes),), float(len(overviews))).to(boxes))
    doubled = _overlaps(large.found, whole.found) > iou
    large = _at(large, ~(doubled & (large.found.labels[:, None] == whole.found.labels)).any(1))
    numbers = torch.full_like(large.window, _WHOLE_IMAGE)
    return Placed(joined([whole.found, large.found]), torch.cat([whole.window, numbers]))


def _overlaps(these: Detections, others: Detections) -> Tensor:
    """Intersection over union (N, M)."""
    common = intersections(these.boxes, others.boxes)
    return common / (areas(these.boxes)[:, None] + areas(others.boxes) - common)


def _at(seen: Placed, index: Tensor) -> Placed:
    return Placed(chosen(seen.found, index), seen.window[index])


def _merged(seen: Placed, how: str, iou: float, viewers: Callable[[Tensor], Tensor]) -> Placed:
    if how == "nms":
        boxes, scores, labels = seen.found[:3]
        # in float64, since batched_nms moves the classes apart by far more than the size of the image
        return _at(seen, batched_nms(boxes.double(), scores.double(), labels, iou))
    found, surest = fuse(seen.found, iou, viewers)
    return Placed(found, seen.window[surest])


def _yields(these: Placed, to: Placed, iou: float, larger_only: bool = False) -> Tensor:
    """Which of `these` (N,) double one of `to` of the same class, or lie mostly in one of another window."""
    result = torch.zeros_like(these.window, dtype=torch.bool)
    for number in these.window.unique():  # one window at a time, to hold little
        mine = these.window == number
        boxes, others = these.found.boxes[mine], to.found.boxes
        common, own, other = intersections(boxes, others), areas(boxes)[:, None], areas(others)
        yields = (common >= _MOST * own) & (to.window != number)
        yields |= common > iou * (own + other - common)
        yields &= these.found.labels[mine, None] == to.found.labels
        if larger_only:
            yields &= other > own
        result[mine] = yields.any(1)
    return result
