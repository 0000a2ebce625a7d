"""Collectives inside of a module, as in SyncBatchNorm: what they gave is kept, and given again in a second run.

The other processes do not take part in a second run: they are somewhere else in their own backward. Seen are
collectives that a module calls as functions of torch.distributed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch.distributed as dist
from torch import Tensor

from hires.memory.saved import RecomputeError
from hires.ops.nested import leaves

NAMES = (
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "broadcast",
    "reduce_scatter_tensor",
)
"""Functions whose first argument receives the result."""


class Collectives:
    """The results of the collectives of one forward, in their order."""

    def __init__(self) -> None:
        self._results: list[list[Tensor]] = []

    def recorded(self) -> Any:
        """A context in which results are kept; it does nothing in a single process."""
        if not (dist.is_available() and dist.is_initialized()):
            return nullcontext()
        return _exchanged(self._recording)

    def repeated(self) -> Any:
        """A context in which collectives give the results that were kept, without talking to anyone."""
        if not self._results:
            return nullcontext()
        results = iter(self._results)

        def repeating(_: Callable[..., Any]) -> Callable[..., Any]:
            def again(*args: Any, **kwargs: Any) -> _Done:
                kept = next(results, None)
                if kept is None:
                    raise RecomputeError("run again, a unit made a collective that it had not made before")
                for tensor, value in zip(leaves(_output(args, kwargs), Tensor), kept, strict=True):
                    tensor.copy_(value)
                return _Done()

            return again

        return _exchanged(repeating)

    def _recording(self, collective: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            work = collective(*args, **kwargs)
            if work is not None:
                work.wait()
            self._results.append([t.detach().clone() for t in leaves(_output(args, kwargs), Tensor)])
            return work

        return recorded


class _Done:
    """Stands in for the work of a collective that nobody does."""

    def wait(self) -> bool:
        return True


def _output(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else next(iter(kwargs.values()))


@contextmanager
def _exchanged(change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """The collectives of torch.distributed, each replaced by what `change` makes of it."""
    before = {name: getattr(dist, name) for name in NAMES if hasattr(dist, name)}
    try:
        for name, collective in before.items():
            setattr(dist, name, change(collective))
        yield
    finally:
        for name, collective in before.items():
            setattr(dist, name, collective)
