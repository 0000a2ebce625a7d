"""Evaluation of whole images, view by view."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from hires.engine.ranks import Alone, Ranks
from hires.engine.shortage import Shortage, attempt, release
from hires.engine.stopping import BrokenOff, Stopping
from hires.engine.views import Views, show
from hires.interfaces import Batch, DataError, Evaluator, ImageSource, TrainingError, View
from hires.ops.looks import NoNotes, Notes
from hires.ops.random_state import WholeRandomState

log = logging.getLogger(__name__)

Settle = Callable[[Any, Callable[[], None]], AbstractContextManager[None]]
"""Prepares a task for an image, given a function that shows all of it to the task once."""


def as_it_is(task: Any, look: Callable[[], None]) -> AbstractContextManager[None]:
    """Prepares nothing."""
    return nullcontext()


_ALONE, _NO_NOTES, _NEVER = Alone(), NoNotes(), Stopping()


@torch.inference_mode()
def evaluate(
    task: Any,
    source: ImageSource,
    evaluator: Evaluator,
    views: "FittingViews",
    *,
    place: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    settle: Settle = as_it_is,
    progress: Callable[[int, int], None] = lambda done, total: None,
    ranks: Ranks = _ALONE,
    skip: bool = False,
    stopping: Stopping = _NEVER,
    notes: Notes = _NO_NOTES,
) -> dict[str, float]:
    """Metrics of a task over a source's images; leaves the task in the mode it was in.

    `place` brings a batch to the device; `progress` is told the images done and their number, before every forward
    pass and after every image. Several processes
    have a share of the images each, and all get the same metrics. With `skip`, broken images are left out, up to
    half of a share. `notes` are taken beside the metrics. Raises TrainingError when memory runs out with one view
    at a time, and Interrupted when `stopping` asks for the end, at which every forward pass looks.
    """
    training, done = task.training, 0
    task.eval()
    evaluator.reset()
    notes.reset()

    def looked(batch: Batch) -> Batch:
        stopping.look()
        progress(done, len(source))
        return place(batch)

    try:
        share = range(ranks.rank, len(source), ranks.size)
        for index, image, target in _images(source, share, len(share) // 2 if skip else 0, views.views):
            parts_of = partial(predict, task, image, place=looked, autocast=autocast, settle=settle)
            for part in views.parts(parts_of, image.shape[:2]):
                evaluator.update(part, target)
                notes.update(index, part, target)
            done = min(index + ranks.size, len(source))
            progress(done, len(source))
    except BrokenOff:
        log.debug("The evaluation is broken off")
    finally:
        task.train(training)
    stopping.settle()
    evaluator.merge(ranks.gather_others(evaluator.counted))
    notes.merge(ranks.gather_others(notes.counted))
    return ranks.by_main(evaluator.compute)


def _images(
    source: ImageSource, share: range, broken: int, views: Views
) -> Iterator[tuple[int, np.ndarray, dict[str, np.ndarray]]]:
    """Index, image and target of a share; warns of at most so many that are broken. Raises DataError."""
    for index in share:
        try:
            image, target = source.read(index)
            if broken and not isinstance(image, np.ndarray):
                _read_through(image, views)
        except DataError as error:
            if not broken:
                raise
            broken -= 1
            log.warning("%s; left out of the evaluation, by data.on_error=skip", error)
        else:
            yield index, image, target


def _read_through(image: np.ndarray, views: Views) -> None:
    """Reads once what is read as it is looked at: damage shows before anything of the image has counted."""
    once = views._replace(overlap=0.0, tta=(), whole=False)
    deque(show(image, once), maxlen=0)


class FittingViews:
    """Views, of which one forward pass takes as many as fit into memory: half as many from when they do not."""

    def __init__(self, views: Views):
        self.views = views

    def parts(self, parts_of: Callable[[Views], Iterator[Any]], size: tuple[int, int]) -> Iterator[Any]:
        """The parts of an image (height, width), each once; when memory runs out, the image is begun again.

        How many views a forward pass takes does not change where the parts begin and end.
        """
        given, parts, random = 0, parts_of(self.views), WholeRandomState()
        while (part := attempt(partial(next, parts, _END))) is not _END:
            if isinstance(part, Shortage):
                self._halve(part, size)
                random.set()
                parts = islice(parts_of(self.views), given, None)
            else:
                given += 1
                yield part

    def _halve(self, shortage: Shortage, size: tuple[int, int]) -> None:
        views, now = self.views, self.views.batch_size // 2
        if not now:
            key = "evaluation.window" if views.fit == "window" else "evaluation.image_size"
            raise TrainingError(
                f"evaluation: out of memory with one view of {list(views.size)} pixels at a time, of an image of "
                f"{list(size)} ({shortage.reason}); set a smaller {key}"
            )
        release()
        what = "evaluation: out of memory with %d views at a time (%s); from this image on %d"
        log.warning(what, views.batch_size, shortage.reason, now)
        self.views = views._replace(batch_size=now)


_END = object()


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
