"""Holds a process to a budget, so that what does not fit fails in a way that can be caught."""

from typing import Any, Self

import torch

from hires.memory.profile import CONTEXT
from hires.ops.process_memory import lift_limit, limit_growth


class Limit:
    """What this process may reserve from here on, bytes, on a type of device; None: as much as there is.

    On the CPU beyond what it has when this begins: imports, opened data.
    """

    def __init__(self, most: int | None, device: str):
        self.most = most
        self.cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())

    def begin(self) -> None:
        if self.most is None:
            return
        if self.cuda:
            total = torch.cuda.mem_get_info()[1]
            torch.cuda.set_per_process_memory_fraction(min(1.0, max(0, self.most - CONTEXT["cuda"]) / total))
        else:
            limit_growth(self.most)

    def end(self) -> None:
        if self.most is None:
            return
        if self.cuda:
            torch.cuda.set_per_process_memory_fraction(1.0)
        else:
            lift_limit()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()
