"""Holds a process to a budget, so that what does not fit fails in a way that can be caught."""

import gc
from typing import Any, Self

import torch

from hires.memory.profile import CONTEXT
from hires.ops.process_memory import give_back, limit_data, set_limit, vm_data


class Limit:
    """What this process may reserve, bytes, on a type of device; None: as much as there is. A context manager.

    On the CPU beyond what it has when this is made, with imports done and data opened.
    """

    def __init__(self, most: int | None, device: str):
        self.most = most
        self.cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
        if most is not None and not self.cuda:
            give_back()  # before the first weights, as in a probe: what they leave in the heap would count
        gc.collect()
        self.before = vm_data()
        self._old: int | None = None

    def __enter__(self) -> Self:
        if self.most is None:
            return self
        if self.cuda:
            total = torch.cuda.mem_get_info()[1]
            torch.cuda.set_per_process_memory_fraction(min(1.0, max(0, self.most - CONTEXT["cuda"]) / total))
        elif self.before is not None:
            self._old = limit_data(self.before + self.most)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.most is None:
            return
        if self.cuda:
            torch.cuda.set_per_process_memory_fraction(1.0)
        elif self._old is not None:
            set_limit(self._old)
