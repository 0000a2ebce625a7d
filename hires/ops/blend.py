"""Blends overlapping predictions of an image row by row, so that the whole image never exists as logits."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from hires.interfaces import View, Window

BAND_ROWS = 256


def blend(size: tuple[int, int], predictions: Iterable[tuple[View, Tensor]]) -> Iterator[tuple[int, Tensor]]:
    """Gaussian-weighted mean of predictions (K, h, w) of an image of (height, width) pixels.

    The views come in row order and cover the image, also without their margins. Yields (first row,
    (K, rows, width)) from top to bottom; what is held at a time is one row of windows. Weights as in nnU-Net
    (Isensee et al. 2021): a standard deviation of an eighth of the window.
    """
    rows = _Rows(size[1])
    for view, prediction, following in unflipped(predictions):
        needed = following.window.y if following else size[0]  # no later view reaches above this row
        down, across = (weights(view, axis, size[axis], prediction) for axis in (0, 1))
        for window, values in native(view, prediction):
            yield from rows.finished(min(window.y, needed))
            first = window.y - view.window.y
            rows.add(window, values, down[first : first + window.height, None] * across)
        yield from rows.finished(needed)


def unflipped(predictions: Iterable[tuple[View, Tensor]]) -> Iterator[tuple[View, Tensor, View | None]]:
    """Each view with its prediction and the view that follows.

    Consecutive views that differ in their flips only become one: the mean of their predictions, turned back.
    """
    stream = iter(predictions)
    current = next(stream, None)
    while current is not None:
        view, total, count = current[0]._replace(flip=()), _turned_back(*current), 1
        while (current := next(stream, None)) is not None and current[0]._replace(flip=()) == view:
            total, count = total + _turned_back(*current), count + 1
        yield view, total if count == 1 else total / count, current[0] if current else None


def _turned_back(view: View, prediction: Tensor) -> Tensor:
    return prediction.flip(view.flip) if view.flip else prediction


class _Rows:
    """Weighted sums of the rows from `top` on; the last channel holds the weights."""

    def __init__(self, width: int):
        self.width, self.top = width, 0
        self.sums: Tensor | None = None

    def add(self, window: Window, values: Tensor, weight: Tensor) -> None:
        needed = window.y + window.height - self.top
        if self.sums is None:
            self.sums = values.new_zeros(values.shape[0] + 1, needed, self.width)
        elif needed > self.sums.shape[1]:
            self.sums = F.pad(self.sums, (0, 0, 0, needed - self.sums.shape[1]))
        area = self.sums[:, window.y - self.top : needed, window.x : window.x + window.width]
        area[:-1] += values * weight
        area[-1] += weight

    def finished(self, row: int) -> Iterator[tuple[int, Tensor]]:
        """Takes out the rows above `row`, which no later window reaches."""
        count = row - self.top
        if count <= 0 or self.sums is None:
            return
        done, self.sums = self.sums[:, :count], self.sums[:, count:]
        top, self.top = self.top, row
        yield top, done[:-1] / done[-1]


def weights(view: View, axis: int, length: int, like: Tensor) -> Tensor:
    """Weights of a view's window along an axis (0: y, 1: x) of an image of `length` pixels; 0 in its margins."""
    start, extent = view.window[axis], view.window[axis + 2]
    result = gaussian(extent, like)
    if start > 0:
        result[: view.margin] = 0
    if start + extent < length:
        result[extent - view.margin :] = 0
    return result


def gaussian(length: int, like: Tensor) -> Tensor:
    """Weights (length,), 1 in the middle, of the device of `like`; float32."""
    position = torch.arange(length, device=like.device, dtype=torch.float32) - (length - 1) / 2
    return torch.exp(-0.5 * (position / (length / 8)) ** 2)


def native(view: View, prediction: Tensor) -> Iterator[tuple[Window, Tensor]]:
    """An unflipped view's prediction (K, h, w) without its padding, at native resolution, in bands of rows.

    A view at native resolution is one band. Others are scaled bilinearly (pixel centres aligned at the
    corners of the area, as `F.interpolate(align_corners=False)` does), one band at a time.
    """
    window = view.window
    values = prediction[:, : view.height, : view.width].float()
    if (view.height, view.width) == (window.height, window.width):
        yield window, values
        return
    for start in range(0, window.height, BAND_ROWS):
        rows = min(BAND_ROWS, window.height - start)
        band = _interpolated_rows(values, start, rows, window.height)
        band = F.interpolate(band[None], size=(rows, window.width), mode="bilinear", align_corners=False)[0]
        yield Window(window.y + start, window.x, rows, window.width), band


def _interpolated_rows(values: Tensor, start: int, rows: int, height: int) -> Tensor:
    """Rows start..start+rows of the values (K, h, w) stretched to `height` rows: (K, rows, w)."""
    source = (torch.arange(start, start + rows, device=values.device) + 0.5) * values.shape[1] / height - 0.5
    source = source.clamp(0, values.shape[1] - 1)
    low = source.long()
    high = (low + 1).clamp(max=values.shape[1] - 1)
    return torch.lerp(values[:, low], values[:, high], (source - low)[:, None].to(values.dtype))
