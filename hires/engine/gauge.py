"""What a training occupies in its first steps."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from hires.engine.ranks import Ranks
from hires.interfaces import Sample
from hires.ops.process_memory import Growth, vm_data

Update = Callable[[list[Sample]], dict[str, Tensor]]
STEPS = 3  # the first makes the optimizer's state; later ones are timed


class Gauge:
    """Measures from its beginning to the end of the third step; None is what was not, or cannot be, measured.

    On the CPU what is reserved is the growth of the process; only a profiler sees what is allocated there.
    `before`: bytes of the process to count from; None: those when it begins. `context`: what CUDA takes beside its
    allocator. `limit`: bytes that the process is held to.
    """

    def __init__(self, accelerator: str, *, before: int | None = None, context: int = 0, limit: int | None = None):
        self.allocated: int | None = None
        self.reserved: int | None = None
        self._cuda = accelerator != "cpu" and torch.cuda.is_available()
        self._before, self._context, self.limit = before, context, limit
        self._growth: Growth | None = None

    def __enter__(self) -> Self:
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
        else:
            self._growth = Growth(self._before)
            self._growth.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._growth is not None:
            self._growth.__exit__(*error)
            self.reserved, self._growth = self._growth.bytes, None

    def so_far(self) -> tuple[int | None, int | None]:
        """The most that was allocated and reserved; on the CPU what is reserved now, or was in the first steps."""
        if self._cuda:
            return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved() + self._context
        now = vm_data()
        most = self._growth.bytes if self._growth is not None else self.reserved
        if now is None or self._before is None:
            return None, most
        return None, max(now - self._before, most or 0)

    def peaks(self, ranks: Ranks) -> tuple[int | None, int | None]:
        """What was allocated and reserved, of the processes where it was most."""
        pairs = zip(*ranks.gather((self.allocated, self.reserved)), strict=True)
        allocated, reserved = (max((one for one in each if one is not None), default=None) for each in pairs)
        return allocated, reserved

    def watching(self, update: Update) -> Update:
        """The same update, which ends the measurement when it has been done often enough."""
        steps = 0

        def watched(samples: list[Sample]) -> dict[str, Tensor]:
            nonlocal steps
            losses = update(samples)
            steps += 1
            if steps == STEPS:
                self._end()
            return losses

        return watched

    def _end(self) -> None:
        if self._cuda:
            self.allocated = torch.cuda.max_memory_allocated()
            self.reserved = torch.cuda.max_memory_reserved() + self._context
        self.__exit__()
