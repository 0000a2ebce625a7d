"""Evaluation of whole images, view by view."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import numpy as np
import torch

from hires.engine.views import Views, show
from hires.interfaces import Batch, Evaluator, ImageSource, View


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
