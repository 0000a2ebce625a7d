"""Saved tensors in other memory until the backward wants them: pinned host memory for CUDA, files for the CPU.

Not run on CUDA.
"""

import os
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from hires.interfaces import ConfigError, TrainingError
from hires.memory.costs import is_dense, size_of
from hires.memory.saved import Kept, is_parameter

SMALLEST = 2**20  # bytes: less is not worth the way


class Stored(ABC):
    """A tensor somewhere else."""

    @abstractmethod
    def get(self) -> Tensor:
        """The tensor, as it was."""


class Offload(ABC):
    """A place for saved tensors; parameters, small tensors and those with gaps stay where they are."""

    device: torch.device  # whose tensors go away

    def hooks(self) -> saved_tensors_hooks:
        """What is saved within goes away."""
        return saved_tensors_hooks(self._pack, _unpack)

    def __deepcopy__(self, memo: Any) -> "Offload":
        return self  # copies of a module share the place

    def _pack(self, tensor: Tensor) -> Stored | Kept:
        large = size_of(tensor) >= SMALLEST
        if tensor.device == self.device and large and is_dense(tensor) and not is_parameter(tensor):
            return self.store(tensor)
        return Kept(tensor.detach())

    @abstractmethod
    def store(self, tensor: Tensor) -> Stored:
        """Copies a tensor away."""


def _unpack(packed: Stored | Kept) -> Tensor:
    return packed.get()


class OnDisk(Stored):
    """A mapped file without a name, which lives as long as its mapping."""

    def __init__(self, tensor: Tensor, folder: Path):
        with tempfile.NamedTemporaryFile(dir=folder, prefix="hires-offload-") as file:
            if hasattr(os, "posix_fallocate"):  # a mapping that finds the disk full later ends the process
                os.posix_fallocate(file.fileno(), 0, size_of(tensor))
            flat = torch.from_file(file.name, shared=True, size=tensor.numel(), dtype=tensor.dtype)
        self._stored = flat.as_strided(tensor.size(), tensor.stride()).copy_(tensor.detach())

    def get(self) -> Tensor:
        return torch.empty_strided(self._stored.size(), self._stored.stride(), dtype=self._stored.dtype).copy_(
            self._stored
        )


class DiskOffload(Offload):
    """Memory-mapped files in a folder, gone with the process. Raises ConfigError if it cannot be used."""

    device = torch.device("cpu")

    def __init__(self, folder: str | Path):
        self._folder = Path(folder).expanduser()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except OSError as error:
            raise ConfigError(f"memory.offload_dir: {folder} cannot be used ({error.strerror})") from error

    def store(self, tensor: Tensor) -> Stored:
        try:
            return OnDisk(tensor, self._folder)
        except (OSError, RuntimeError) as error:
            raise TrainingError(
                f"memory.offload_dir: {self._folder} cannot hold what is offloaded ({error})"
            ) from error


class OnHost(Stored):
    """A copy in pinned memory; both ways run on a stream of their own."""

    def __init__(self, tensor: Tensor, stream: Any, before: "OnHost | None"):
        self._device, self._stream = tensor.device, stream
        self._before: Callable[[], OnHost | None] = weakref.ref(before) if before is not None else lambda: None
        self._taken = False
        self._fetched: Tensor | None = None
        self._host = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, pin_memory=True)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(stream):
            self._host.copy_(tensor.detach(), non_blocking=True)

    def fetch(self) -> None:
        """Starts to bring the tensor back, ahead of `get`."""
        if self._fetched is None and not self._taken:
            self._fetched = self._brought()

    def get(self) -> Tensor:
        """Backward goes the opposite way, so what was stored before this comes next."""
        tensor = self._brought() if self._fetched is None else self._fetched
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        tensor.record_stream(current)
        self._taken, self._fetched = True, None
        before = self._before()
        if before is not None:
            before.fetch()
        return tensor

    def _brought(self) -> Tensor:
        with torch.cuda.stream(self._stream):
            return self._host.to(self._device, non_blocking=True)


class HostOffload(Offload):
    """Pinned host memory, for tensors on one CUDA device.

    The forward waits for a copy once `AHEAD` further tensors have come, and only then lets go of the tensor: so
    its memory is free for what comes next, and not just promised.
    """

    AHEAD = 3

    def __init__(self, device: torch.device):
        self._stream = torch.cuda.Stream(device)
        self.device = self._stream.device
        self._last: Callable[[], OnHost | None] = lambda: None
        self._leaving: deque[tuple[Tensor, Any]] = deque()

    def store(self, tensor: Tensor) -> Stored:
        stored = OnHost(tensor, self._stream, self._last())
        self._last = weakref.ref(stored)
        self._leaving.append((tensor.detach(), self._stream.record_event()))
        if len(self._leaving) > self.AHEAD:
            _, copied = self._leaving.popleft()
            torch.cuda.current_stream(self.device).wait_event(copied)
        return stored


def make_offload(device: torch.device, folder: str | Path | None) -> Offload | None:
    """Where saved tensors of a device go; None for the CPU without a folder."""
    if device.type == "cuda":
        return HostOffload(device)
    return DiskOffload(folder) if folder is not None else None
