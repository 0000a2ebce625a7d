"""The step of several processes that have a part of every parameter each.

Parameters and gradients are exchanged within each forward and backward: a process that fails there cannot tell the
others, who wait for it. So a step is not tried again when memory runs out in one: it ends, and with it all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from hires.engine.buckets import Buckets
from hires.engine.ranks import Several, lost
from hires.engine.sharded import Reached
from hires.engine.shortage import Shortage, attempt
from hires.engine.step import Losses, Normalizers
from hires.interfaces import TrainingError


class ShardedShare:
    """A share of the batch; the task is split before the first step."""

    on_strain: Callable[[Any], None] = staticmethod(lambda shortage: None)  # nothing is tried twice

    def __init__(self, ranks: Several, task: nn.Module):
        self.ranks, self.task = ranks, task

    @cached_property
    def reached(self) -> Reached:
        return Reached(self.task)

    def normalizers(self, count: Callable[[], Normalizers]) -> Normalizers:
        shares = self.ranks.gather(self._alone(count))
        return {name: torch.stack([share[name] for share in shares]).sum(0) for name in shares[0]}

    def losses(self, accumulate: Callable[..., Losses]) -> Losses:
        """Each backward adds up the gradients; what no process has a gradient of keeps none.

        Raises TrainingError when memory runs out, and LostProcess when another process has ended.
        """
        reached = self.reached  # watches from the first forward on
        losses = self._alone(partial(accumulate, rounds=self._most))
        totals = torch.stack(list(losses.values()))
        self.ranks.add_up(Buckets([totals]))
        names, parameters = zip(*self.task.named_parameters(), strict=True)
        found = reached.take()
        anybody = self.ranks.most(torch.tensor([name in found for name in names], dtype=torch.int32))
        for parameter, has_gradient in zip(parameters, anybody.tolist(), strict=True):
            if not has_gradient:
                parameter.grad = None
        return dict(zip(losses, totals.unbind(), strict=True))

    def update(self, clip: Callable[[], Any], step: Callable[[], Any]) -> None:
        self._alone(clip)
        self._alone(step)

    def _most(self, micro_batches: int) -> int:
        return int(self.ranks.most(torch.tensor([micro_batches])).item())

    def _alone(self, run: Callable[[], Any]) -> Any:
        with told_apart():
            outcome = attempt(run)
        if not isinstance(outcome, Shortage):
            return outcome
        raise TrainingError(
            f"out of memory in process {self.ranks.rank} ({outcome.reason}); with trainer.strategy=fsdp2 a step "
            "cannot be tried again: set a smaller micro_batch_size or memory.activation_checkpointing=full, and "
            "go on from the last checkpoint by resume=RUN"
        )


@contextmanager
def told_apart() -> Iterator[None]:
    """Tells an exchange that failed, since another process has ended, from what is wrong in this one.

    Raises LostProcess for the former.
    """
    try:
        yield
        return
    except RuntimeError as error:
        if not (isinstance(error, torch.distributed.DistError) or "gloo" in str(error)):
            raise
        ended = lost(error)
    raise ended
