"""Evaluation of whole images, view by view."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hires.interfaces import Batch, Evaluator, ImageSource, View
from hires.ops.padding import pad_to, resize_to_fit
from hires.ops.windows import tiles


class Views(NamedTuple):
    """How the network sees whole images."""

    fit: str  # window or resize
    size: tuple[int, int]  # (height, width) that the network sees, pixels
    overlap: float = 0.25  # share of a window
    batch_size: int = 1  # views in one forward pass


@torch.inference_mode()
def evaluate(
    task: Any,
    source: ImageSource,
    evaluator: Evaluator,
    views: Views,
    *,
    place: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float]:
    """Metrics of a task over a source's images; leaves the task in the mode it was in.

    `place` brings a batch to the device; `progress` is told the images done and their number.
    """
    training = task.training
    task.eval()
    evaluator.reset()
    for index in range(len(source)):
        image, target = source.read(index)
        predictions = predict_views(task, image, views, place=place, autocast=autocast)
        for part in task.stitch(image.shape[:2], predictions):
            evaluator.update(part, target)
        progress(index + 1, len(source))
    task.train(training)
    return evaluator.compute()


def predict_views(
    task: Any,
    image: np.ndarray,
    views: Views,
    *,
    place: Callable[[Batch], Batch],
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Iterator[tuple[View, Any]]:
    """Each view of an image (H, W, C) with the task's prediction, in row order."""
    shown = show(image, views)
    while group := list(islice(shown, views.batch_size)):
        batch = place(Batch(torch.stack([pixels for _, pixels in group]), []))
        with autocast():
            predictions = task.predict(batch)
        yield from zip([view for view, _ in group], predictions, strict=True)


def show(image: np.ndarray, views: Views) -> Iterator[tuple[View, Tensor]]:
    """The views of an image (H, W, C) as tensors (C, h, w), padded to the size that the network sees."""
    height, width = image.shape[:2]
    for window in tiles((height, width), views.size if views.fit == "window" else (height, width), views.overlap):
        crop = image[window.y : window.y + window.height, window.x : window.x + window.width]
        if views.fit == "resize":
            crop, _ = resize_to_fit(crop, views.size)
        view = View(window, *crop.shape[:2])
        pixels = pad_to(np.ascontiguousarray(crop), *views.size)
        yield view, torch.from_numpy(pixels).permute(2, 0, 1)
