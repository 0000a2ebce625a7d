"""What `offload` does to memory, simulated: what is stored is gone, with the delays of the real one."""

from collections import deque
from typing import Any

import torch
from torch import Tensor

from hires.memory.offload import HostOffload, Offload, Stored


class Gone(Stored):
    """A tensor that is in other memory; it has a shape only."""

    def __init__(self, tensor: Tensor, before: "Gone | None"):
        self._device, self._before = tensor.device, before
        self._shape = torch.empty_like(tensor.detach(), device="meta")
        self._fetched: Tensor | None = None

    def fetch(self) -> None:
        self._fetched = torch.empty_like(self._shape, device=self._device)

    def get(self) -> Tensor:
        """Backward goes the opposite way: what was stored before is on its way now."""
        if self._fetched is None:
            self.fetch()
        tensor, self._fetched = self._fetched, None
        before, self._before = self._before, None
        if before is not None and self._device.type == "cuda":
            before.fetch()
        assert tensor is not None
        return tensor


class SimulatedOffload(Offload):
    """Of fake tensors on a device; on CUDA, the last few tensors are still leaving."""

    def __init__(self, device: torch.device):
        self.device = torch.device("cuda", 0) if device.type == "cuda" else device  # as fake tensors say it
        self._last: Gone | None = None
        self._leaving: deque[Any] = deque(maxlen=HostOffload.AHEAD if device.type == "cuda" else 0)

    def store(self, tensor: Tensor) -> Stored:
        self._leaving.append(tensor.detach())
        self._last = Gone(tensor, self._last)
        return self._last
