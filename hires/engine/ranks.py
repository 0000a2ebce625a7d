"""The processes of a training, and what they say to each other.

A collective waits for all processes, so every one of them must come to the same ones in the same order. An error
of one before a collective would leave the others waiting: what may fail is done apart from them, and exchanged as
a value.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from hires.engine.buckets import Buckets
from hires.engine.shortage import CommonShortage
from hires.interfaces import CommonError, HiresError, LostProcess

T = TypeVar("T")


class Ranks(Protocol):
    """The processes of a training, seen from one of them; `rank` counts from 0, which is the main one."""

    rank: int
    size: int
    here: int  # processes on this machine

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and shows."""

    def by_main(self, make: Callable[[], T]) -> T:
        """What the main process makes, for all. What it raises as HiresError ends all."""

    def together(self, make: Callable[[], T]) -> T:
        """What each process makes for itself. A HiresError of one ends all, and the main one raises it."""

    def first_here(self, make: Callable[[], T]) -> T:
        """As `together`, but one process of a machine makes it before the others do, who may find it there."""

    def gather(self, value: T) -> list[T]:
        """The values of all, in the order of their ranks."""

    def gather_others(self, make: Callable[[], T]) -> list[T]:
        """To the main process what each of the others makes, in the order of their ranks; to them, nothing."""

    def most(self, values: Tensor) -> Tensor:
        """The largest of all processes, of each value; a tensor on the CPU, which is changed."""

    def spread(self, *modules: nn.Module) -> None:
        """Gives all processes the parameters and buffers of the main one."""

    def spread_buffers(self, *modules: nn.Module) -> None:
        """Gives all processes the buffers of the main one."""

    def seed(self, seed: int) -> None:
        """Gives each process but the main one random numbers of its own."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...


class Alone:
    """One process, which asks nobody."""

    rank, size, here, main = 0, 1, 1, True

    def by_main(self, make: Callable[[], T]) -> T:
        return make()

    together = first_here = by_main

    def gather(self, value: T) -> list[T]:
        return [value]

    def gather_others(self, make: Callable[[], T]) -> list[T]:
        return []

    def most(self, values: Tensor) -> Tensor:
        return values

    def spread(self, *modules: nn.Module) -> None:
        pass

    spread_buffers = spread

    def seed(self, seed: int) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class Several:
    """Processes joined by torch.distributed; a context manager that parts from them.

    `local_rank` counts the processes of this machine, of which there are `here`; `close` is called at the end.
    """

    def __init__(self, local_rank: int, here: int, close: Callable[[], None] = lambda: None):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_rank, self.here, self._close = local_rank, here, close

    @property
    def main(self) -> bool:
        return self.rank == 0

    def by_main(self, make: Callable[[], T]) -> T:
        made: list[Any] = [_outcome(make) if self.main else None]
        with talking():
            dist.broadcast_object_list(made, src=0)
        self._end_if_failed(made)
        return made[0]

    def together(self, make: Callable[[], T]) -> T:
        made = _outcome(make)
        self._end_if_failed(self.gather(made if isinstance(made, _Failed) else None))
        return made

    def first_here(self, make: Callable[[], T]) -> T:
        first = self.together(make if self.local_rank == 0 else lambda: None)
        others = self.together(make if self.local_rank != 0 else lambda: None)
        return first if self.local_rank == 0 else others  # type: ignore[return-value]

    def _end_if_failed(self, made: list[Any]) -> None:
        failed = next((each for each in made if isinstance(each, _Failed)), None)
        if failed is not None:
            raise failed.error if self.main else SystemExit(0)  # the main process says it, and ends with its code

    def gather(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.size
        with talking():
            dist.all_gather_object(values, value)
        return values

    def gather_others(self, make: Callable[[], T]) -> list[T]:
        values: list[Any] | None = [None] * self.size if self.main else None
        with talking():
            dist.gather_object(None if self.main else make(), values, dst=0)
        return values[1:] if values else []

    def most(self, values: Tensor) -> Tensor:
        """The largest of all processes, of each value; a tensor on the CPU, which is changed."""
        with talking():
            dist.all_reduce(values, dist.ReduceOp.MAX)
        return values

    def add_up(self, buckets: Buckets) -> None:
        """The sum over all processes, in the place of each of the tensors."""
        with talking():
            buckets.exchange(dist.all_reduce)

    def spread(self, *modules: nn.Module) -> None:
        self._give([tensor for module in modules for tensor in module.parameters()])
        self.spread_buffers(*modules)

    def spread_buffers(self, *modules: nn.Module) -> None:
        self._give([tensor for module in modules for tensor in module.buffers()])

    def _give(self, tensors: list[Tensor]) -> None:
        def give(flat: Tensor) -> None:
            dist.broadcast(flat, src=0)

        with talking():
            Buckets(tensor.detach() for tensor in tensors).exchange(give)

    def seed(self, seed: int) -> None:
        if not self.main:
            torch_seed, numpy_seed = np.random.SeedSequence([seed, self.rank]).generate_state(2)
            torch.manual_seed(int(torch_seed))
            np.random.seed(int(numpy_seed))
            random.seed(int(torch_seed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Parts from the others; what all raise alike is left to the main process, or to one of each machine."""
        dist.destroy_process_group()
        self._close()
        if isinstance(error, (CommonError, CommonShortage)) and not self.main:
            raise SystemExit(0) from None
        if isinstance(error, LostProcess) and self.local_rank != 0:
            raise SystemExit(1) from None


class _Failed:
    """A HiresError as a value."""

    def __init__(self, error: HiresError):
        self.error = error


def _outcome(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except HiresError as error:
        return _Failed(error)


@contextmanager
def talking() -> Iterator[None]:
    """Says in one line that the others cannot be reached any more. Raises LostProcess."""
    try:
        yield
        return
    except (RuntimeError, MemoryError) as error:  # of the latter no process may make a lack of its own
        ended = lost(error)
    raise ended from None  # which hides that memory may have run out in it: nobody could go on from there


def lost(error: BaseException) -> LostProcess:
    """What an exchange that failed means, in one line."""
    line = next(iter(str(error).splitlines()), "")
    reason = line.rpartition("cc:")[2].partition("] ")[2] or line  # without where in the library
    return LostProcess(
        "the training cannot go on: one of its processes has ended or cannot be reached "
        f"({reason.partition('. ')[0]}); if it said why, that stands above; resume=RUN goes on from the last "
        "checkpoint"
    )
