"""Where the boxes of a view lie in the image, and which views show a box of the image whole."""

import torch
from torch import Tensor

from hires.interfaces import View
from hires.ops.boxes import Detections, chosen, turned
from hires.ops.windows import Size

NEAR = 2.0  # view pixels from a border of the window at which a box counts as cut: detectors are not exact


def placed(view: View, found: Detections, size: Size) -> Detections:
    """A view's detections in pixels of the image of (height, width), clipped to the view's window.

    Those without area or with the centre outside (in the padding) are left out; frames are not clipped.
    """
    found = turned(found, view.flip)
    y, x, height, width = view.window
    scale = found.boxes.new_tensor([width / view.width, height / view.height] * 2)
    boxes = found.boxes * scale + scale.new_tensor([x, y, x, y])
    low, high = scale.new_tensor([x, y]), scale.new_tensor([x + width, y + height])
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    boxes = boxes.clamp(low.repeat(2), high.repeat(2))
    inside = ((centres >= low) & (centres < high) & (boxes[:, 2:] > boxes[:, :2])).all(1)
    frames = None if found.frames is None else found.frames * scale + scale.new_tensor([x, y, x, y])
    return chosen(found._replace(boxes=boxes, frames=frames, extent=size), inside)


def is_cut(boxes: Tensor, view: View, size: Size) -> Tensor:
    """Which boxes (N, 4) in pixels of the image reach a border of the view's window that is inside the image."""
    window, shown = view.window, (view.height, view.width)
    result = torch.zeros(len(boxes), dtype=torch.bool, device=boxes.device)
    for axis in (0, 1):  # y, x
        start, length = window[axis], window[axis + 2]
        near = max(1.0, NEAR * length / shown[axis])
        if start > 0:
            result |= boxes[:, 1 - axis] <= start + near
        if start + length < size[axis]:
            result |= boxes[:, 3 - axis] >= start + length - near
    return result


def showing_whole(boxes: Tensor, views: list[View], size: Size) -> Tensor:
    """How many views (N,) show each box uncut."""
    return sum((~is_cut(boxes, view, size) for view in views), torch.zeros(len(boxes), device=boxes.device))


def showing(boxes: Tensor, views: list[View]) -> Tensor:
    """How many views' windows (N,) hold each box, give or take a pixel."""
    counts = torch.zeros(len(boxes), device=boxes.device)
    for y, x, height, width in (view.window for view in views):
        low, high = boxes.new_tensor([x - 1, y - 1]), boxes.new_tensor([x + width + 1, y + height + 1])
        counts += ((boxes[:, :2] >= low) & (boxes[:, 2:] <= high)).all(1)
    return counts
