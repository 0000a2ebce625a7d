"""The step of several processes: each has a share of the optimizer batch, and all end with the same parameters.

Nothing is exchanged in a forward or backward. Each of the three parts of a step is done by every process for
itself, where memory may run out; only then do they tell each other, so that all do the same about it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from hires.engine.buckets import Buckets
from hires.engine.ranks import Several
from hires.engine.shortage import CommonShortage, Shortage, attempt, in_two_tries
from hires.engine.step import Losses, Normalizers, Whole
from hires.engine.undo import Unchanged, UpdateNote
from hires.interfaces import CommonError

DONE, STRAINED, UNTOUCHED, TORN = range(4)
"""How an update went: at once; in a second try; not at all; begun, and not done."""


class OfSeveral:
    """A share of the batch; gradients, losses and shortages of memory are exchanged with the other shares."""

    def __init__(self, ranks: Several, optimizer: torch.optim.Optimizer):
        self.ranks, self.optimizer = ranks, optimizer
        self.on_strain: Callable[[Any], None] = lambda shortage: None

    @property
    def parameters(self) -> list[Tensor]:
        """In the same order in all processes."""
        return [p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad]

    def normalizers(self, count: Callable[[], Normalizers]) -> Normalizers:
        shares = self.ranks.gather(attempt(count))
        known = [share for share in shares if not isinstance(share, Shortage)]
        if len(known) < len(shares):
            self._fall_short(shares)
        return {name: torch.stack([share[name] for share in known]).sum(0) for name in known[0]}

    def losses(self, accumulate: Callable[[], Losses]) -> Losses:
        """In one exchange of buckets, when all have come to the end of their last backward.

        A parameter without a gradient counts as zeros where another process has one, and keeps none where nobody
        has. Raises CommonShortage in all processes when memory ran out in one.
        """
        ready = attempt(partial(_ready, accumulate, self.parameters))
        short = isinstance(ready, Shortage)
        has = [False] * len(self.parameters) if isinstance(ready, Shortage) else ready.has_gradient
        anybody = self.ranks.most(torch.tensor([short, *has], dtype=torch.int32)).tolist()
        if anybody[0] or isinstance(ready, Shortage):
            self._fall_short(self.ranks.gather(ready if isinstance(ready, Shortage) else None))
        self.ranks.add_up(ready.buckets)
        for parameter, has_gradient in zip(self.parameters, anybody[1:], strict=True):
            if not has_gradient:
                parameter.grad = None
        return dict(zip(ready.names, ready.losses.unbind(), strict=True))

    def update(self, clip: Callable[[], Any], step: Callable[[], Any]) -> None:
        """The same in all processes.

        Raises CommonShortage in all when memory ran out in all before anything was changed, and CommonError when
        it ran out in some while others have changed their parameters.
        """
        how, shortage = self._updated(clip, step)
        worst, best = self.ranks.most(torch.tensor([how, -how])).tolist()
        if worst == DONE:
            return
        found = self.ranks.gather(shortage)
        if worst == STRAINED:
            self.on_strain(self._described(found))
        elif worst == UNTOUCHED and -best == UNTOUCHED:
            self._fall_short(found)
        else:
            raise CommonError(
                f"out of memory in the update of the parameters of a process ({self._described(found).reason}), "
                "which others have done, so that they are no longer the same; resume=RUN goes on from the last "
                "checkpoint, with a smaller micro_batch_size if it happens again"
            )

    def _updated(self, clip: Callable[[], Any], step: Callable[[], Any]) -> tuple[int, Shortage | None]:
        """How it went here, and what it lacked at first."""
        gradients = Unchanged(p.grad for p in self.parameters if p.grad is not None)
        note = UpdateNote(self.optimizer)
        before, done = in_two_tries(clip, gradients)
        if not done:
            return UNTOUCHED, before

        def untouched() -> bool:
            return not note.has_begun

        shortage, done = in_two_tries(step, untouched, note.restore)
        if done:
            return (STRAINED if shortage or before else DONE), shortage or before
        return (UNTOUCHED if untouched() else TORN), shortage

    def _fall_short(self, found: list[Any]) -> NoReturn:
        raise CommonShortage(self._described(found).reason)

    def _described(self, found: list[Any]) -> Shortage:
        """What the first process that lacked memory said."""
        rank, shortage = next((r, each) for r, each in enumerate(found) if isinstance(each, Shortage))
        return Shortage(f"process {rank}: {shortage.reason}")


class Rehearsal(Whole):
    """What a step of several processes does in one of them, without the others: for its memory.

    `made` is told of the buffers for what would be exchanged.
    """

    def __init__(self, parameters: Iterable[Tensor], made: Callable[[Iterable[Tensor]], None]):
        self.made = made
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]

    def losses(self, accumulate: Callable[[], Losses]) -> Losses:
        ready = _ready(accumulate, self.parameters)
        self.made(ready.buckets.buffers.values())
        ready.buckets.exchange(lambda flat: None)
        return dict(zip(ready.names, ready.losses.unbind(), strict=True))


class Ready(NamedTuple):
    """What a process has when its last backward is done."""

    names: tuple[str, ...]  # of the losses
    losses: Tensor  # (names,)
    has_gradient: list[bool]  # of each parameter
    buckets: Buckets  # of gradients and losses


def _ready(accumulate: Callable[[], Losses], parameters: list[Tensor]) -> Ready:
    losses = accumulate()
    has_gradient = [parameter.grad is not None for parameter in parameters]
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    totals = torch.stack(list(losses.values()))
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return Ready(tuple(losses), totals, has_gradient, Buckets([*gradients, totals]))
