"""One optimizer step: micro-batches forward and backward, then the update."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from hires.engine.progress import Progress
from hires.interfaces import Batch, Sample, Task


class Optimizer(Protocol):
    def step(self) -> Any: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...


def train_step(
    task: Task,
    samples: list[Sample],
    optimizer: Optimizer,
    *,
    micro_batch_size: int,
    place: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
    clip: Callable[[], Any] = lambda: None,
) -> dict[str, Tensor]:
    """Trains on one optimizer batch; gradients are those of the whole batch however it is split.

    `place` brings a collated micro-batch to the device; `backward` takes a scalar loss; `clip` runs between
    the last backward and the update. Returns the losses of the batch, detached, by name.
    """
    totals = accumulate(
        task,
        samples,
        micro_batch_size=micro_batch_size,
        place=place,
        autocast=autocast,
        backward=backward,
    )
    clip()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return totals


def accumulate(
    task: Task,
    samples: list[Sample],
    *,
    micro_batch_size: int,
    place: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
) -> dict[str, Tensor]:
    """Adds the gradients of one optimizer batch, micro-batch by micro-batch; arguments as in `train_step`."""
    normalizers: Mapping[str, Tensor] | None = None
    whole = task.normalizers([sample.target for sample in samples])
    totals: dict[str, Tensor] = {}
    for micro_batch in micro_batches(samples, micro_batch_size):
        batch = place(micro_batch)
        normalizers = normalizers or {name: n.to(batch.images.device) for name, n in whole.items()}
        with autocast():
            losses = task(batch, normalizers)
            loss = torch.stack(list(losses.values())).sum()
        backward(loss)
        for name, value in losses.items():
            totals[name] = totals[name] + value.detach() if name in totals else value.detach()
    return totals


def micro_batches(samples: list[Sample], size: int) -> Iterator[Batch]:
    """The samples in order, `size` at a time, collated."""
    for start in range(0, len(samples), size):
        yield collate(samples[start : start + size])


def collate(samples: list[Sample]) -> Batch:
    """Samples of one size as one batch."""
    return Batch(torch.stack([sample.image for sample in samples]), [sample.target for sample in samples])


class Updater:
    """An optimizer step with what follows it: the learning rate of the next one and the averaged weights."""

    def __init__(
        self,
        *,
        task: Any,
        step: Callable[[list[Sample]], dict[str, Tensor]],
        schedule: Callable[[int], None],
        average: Callable[[Any, int], None],
        progress: Progress,
    ):
        self.task, self.step, self.schedule, self.average = task, step, schedule, average
        self.progress = progress

    def __call__(self, samples: list[Sample]) -> dict[str, Tensor]:
        losses = self.step(samples)
        self.progress.step += 1
        self.schedule(self.progress.step)
        self.average(self.task, self.progress.step)
        return losses
