"""One optimizer step: micro-batches forward and backward, then the update."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from hires.engine.progress import Progress
from hires.engine.undo import BufferCopies
from hires.interfaces import Batch, Sample, Task

Losses = dict[str, Tensor]
Normalizers = Mapping[str, Tensor]


class Optimizer(Protocol):
    def step(self) -> Any: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...


class Share(Protocol):
    """What the processes of a training make one of: each has a share of the optimizer batch.

    `on_strain` is told, with what was lacking, of an update that lacked memory but was done in a second try.
    """

    on_strain: Callable[[Any], None]

    def normalizers(self, count: Callable[[], Normalizers]) -> Normalizers:
        """Those of the whole optimizer batch; `count` gives those of this process's samples."""

    def losses(self, accumulate: Callable[..., Losses]) -> Losses:
        """Those of the whole batch; `accumulate` leaves the gradients of this process's samples, which then are
        those of the whole batch; it may be told `rounds`."""

    def update(self, clip: Callable[[], Any], step: Callable[[], Any]) -> None:
        """Clips the gradients and changes the parameters."""


class Whole:
    """One process has all of the batch; it has no second try, and on_strain is never told."""

    on_strain: Callable[[Any], None] = staticmethod(lambda shortage: None)

    def normalizers(self, count: Callable[[], Normalizers]) -> Normalizers:
        return count()

    def losses(self, accumulate: Callable[[], Losses]) -> Losses:
        return accumulate()

    def update(self, clip: Callable[[], Any], step: Callable[[], Any]) -> None:
        clip()
        step()


class Guarding(Protocol):
    """Decides whether what a step has found may change the parameters."""

    def begin(self) -> None:
        """To be told before the first forward."""

    def checked(self, losses: Losses) -> Losses:
        """The losses of this process after its last backward, which are not finite where its gradients are not."""

    def passes(self, losses: Losses, samples: list[Sample]) -> bool:
        """Whether the update is to be done, by the losses of the whole batch; else buffers are as they were."""


class Trust:
    """Lets every update pass."""

    def begin(self) -> None:
        pass

    def checked(self, losses: Losses) -> Losses:
        return losses

    def passes(self, losses: Losses, samples: list[Sample]) -> bool:
        return True


_WHOLE, _TRUST = Whole(), Trust()


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
    share: Share = _WHOLE,
    guard: Guarding = _TRUST,
) -> Losses:
    """Trains on one optimizer batch; gradients are those of the whole batch however it is split.

    `place` brings a collated micro-batch to the device; `backward` takes a scalar loss; `clip` runs between
    the last backward and the update. With `share`, the samples are those of this process. Returns the losses of
    the batch, detached, by name; none when `guard` did not let the update pass.
    """
    normalizers = share.normalizers(partial(task.normalizers, [sample.target for sample in samples]))
    run = partial(
        accumulate,
        task,
        samples,
        micro_batch_size=micro_batch_size,
        place=place,
        autocast=autocast,
        backward=backward,
        whole=normalizers,
    )
    guard.begin()
    totals = share.losses(lambda **how: guard.checked(run(**how)))
    passed = guard.passes(totals, samples)
    if passed:
        share.update(clip, optimizer.step)
    optimizer.zero_grad(set_to_none=True)
    return totals if passed else {}


def accumulate(
    task: Task,
    samples: list[Sample],
    *,
    micro_batch_size: int,
    place: Callable[[Batch], Batch] = lambda batch: batch,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
    whole: Normalizers | None = None,
    rounds: Callable[[int], int] = lambda count: count,
) -> Losses:
    """Adds the gradients of one optimizer batch, micro-batch by micro-batch; arguments as in `train_step`.

    `whole` are the normalizers of the optimizer batch, if it has more samples than these. `rounds` says, for the
    number of micro-batches, how many forwards and backwards there have to be; those beyond add nothing.
    """
    normalizers: Normalizers | None = None
    whole = whole or task.normalizers([sample.target for sample in samples])
    totals: Losses = {}
    count = -(-len(samples) // micro_batch_size)
    idle_rounds = rounds(count) - count  # asked before the first, since processes wait for each other in each
    for micro_batch in micro_batches(samples, micro_batch_size):
        batch = place(micro_batch)
        normalizers = normalizers or {name: n.to(batch.images.device) for name, n in whole.items()}
        with autocast():
            losses = task(batch, normalizers)
            loss = torch.stack(list(losses.values())).sum()
        backward(loss)
        for name, value in losses.items():
            totals[name] = totals[name] + value.detach() if name in totals else value.detach()
    for _ in range(idle_rounds):
        idle(task, place(collate(samples[:micro_batch_size])), normalizers or {}, autocast, backward)
    return totals


def idle(
    task: Any,
    batch: Batch,
    normalizers: Normalizers,
    autocast: Callable[[], AbstractContextManager[Any]],
    backward: Callable[[Tensor], Any],
) -> None:
    """A forward and backward that change nothing: all gradients are zeros, and buffers stay as they are."""
    buffers = BufferCopies(task)
    buffers.note()
    with autocast():
        loss = torch.stack(list(task(batch, normalizers).values())).sum()
    backward(0 * loss)
    buffers.restore()


def micro_batches(samples: list[Sample], size: int) -> Iterator[Batch]:
    """The samples in order, `size` at a time, collated."""
    for start in range(0, len(samples), size):
        yield collate(samples[start : start + size])


def collate(samples: list[Sample]) -> Batch:
    """Samples of one size as one batch."""
    return Batch(torch.stack([sample.image for sample in samples]), [sample.target for sample in samples])


class Updater:
    """An optimizer step with what follows it: the learning rate of the next one and the averaged weights.

    A step without losses has changed no weights.
    """

    def __init__(
        self,
        *,
        step: Callable[[list[Sample]], Losses],
        schedule: Callable[[int], None],
        average: Callable[[int], None],
        progress: Progress,
    ):
        self.step, self.schedule, self.average, self.progress = step, schedule, average, progress

    def __call__(self, samples: list[Sample]) -> Losses:
        losses = self.step(samples)
        self.progress.step += 1
        self.schedule(self.progress.step)
        if losses:
            self.average(self.progress.step)
        return losses
