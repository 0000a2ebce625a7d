"""Evaluation of whole images, view by view."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import numpy as np
import torch

from hires.engine.views import Views, show
from hires.interfaces import Batch, Evaluator, ImageSource, View

Settle = Callable[[Any, Callable[[], None]], AbstractContextManager[None]]
"""Prepares a task for an image, given a function that shows all of it to the task once."""


def as_it_is(task: Any, look: Callable[[], None]) -> AbstractContextManager[None]:
    """Prepares nothing."""
    return nullcontext()


@torch.inference_mode()
def evaluate(
    task: Any,
    source: ImageSource,
    evaluator: Evaluator,
    views: Views,
    *,
    place: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    settle: Settle = as_it_is,
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
        for part in predict(task, image, views, place=place, autocast=autocast, settle=settle):
            evaluator.update(part, target)
        progress(index + 1, len(source))
    task.train(training)
    return evaluator.compute()


def predict(
    task: Any,
    image: np.ndarray,
    views: Views,
    *,
    place: Callable[[Batch], Batch],
    autocast: Callable[[], AbstractContextManager[Any]],
    settle: Settle = as_it_is,
) -> Iterator[Any]:
    """The parts of an image (H, W, C) that the task stitches together from its views, in row order."""

    def look() -> None:
        once = views._replace(overlap=0.0, tta=(), whole=False)
        deque(predict_views(task, image, once, place=place, autocast=autocast), maxlen=0)

    with settle(task, look):
        yield from task.stitch(image.shape[:2], predict_views(task, image, views, place=place, autocast=autocast))


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
