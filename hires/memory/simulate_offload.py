"""What `offload` does to memory, simulated: what is stored is gone, with the delays of the real one."""

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hires.memory.offload import HostOffload, Offload, Stored


class Gone(Stored):
    """A tensor that is in other memory; it has a shape only."""

    def __init__(self, tensor: Tensor, before: "Gone | None"):
        self._device, self._taken = tensor.device, False
        self._before: Callable[[], Gone | None] = weakref.ref(before) if before is not None else lambda: None
        self._shape = torch.empty_like(tensor.detach(), device="meta")
        self._fetched: Tensor | None = None

    def fetch(self) -> None:
        """Starts to bring the tensor back, ahead of `get`."""
        if self._fetched is None and not self._taken:
            self._fetched = self._brought()

    def get(self) -> Tensor:
        """Backward goes the opposite way: what was stored before is on its way now."""
        tensor = self._brought() if self._fetched is None else self._fetched
        self._taken, self._fetched = True, None
        before = self._before()
        if before is not None and self._device.type == "cuda":
            before.fetch()
        return tensor

    def _brought(self) -> Tensor:
        return torch.empty_like(self._shape, device=self._device)


class SimulatedOffload(Offload):
    """Of fake tensors on a device; on CUDA, the last few tensors are still leaving."""

    def __init__(self, device: torch.device):
        self.device = torch.device("cuda", 0) if device.type == "cuda" else device  # as fake tensors say it
        self._last: Callable[[], Gone | None] = lambda: None
        self._leaving: deque[Any] = deque(maxlen=HostOffload.AHEAD if device.type == "cuda" else 0)

    def store(self, tensor: Tensor) -> Stored:
        self._leaving.append(tensor.detach())
        gone = Gone(tensor, self._last())
        self._last = weakref.ref(gone)
        return gone
