"""Saved tensors in other memory until the backward wants them: pinned host memory for CUDA, files for the CPU.

Not run on CUDA.
"""

import os
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from hires.interfaces import ConfigError, TrainingError

SMALLEST = 2**20  # bytes: less is not worth the way


class Stored(ABC):
    """A tensor somewhere else."""

    @abstractmethod
    def get(self) -> Tensor:
        """The tensor, as it was."""


class Offload(ABC):
    """A place for saved tensors; parameters, small tensors and those with gaps stay where they are."""

    def hooks(self) -> saved_tensors_hooks:
        """What is saved within goes away."""
        return saved_tensors_hooks(self._pack, _unpack)

    def _pack(self, tensor: Tensor) -> Any:
        root = tensor if tensor._base is None else tensor._base
        is_parameter = root.is_leaf and root.requires_grad
        if is_parameter or tensor.numel() * tensor.element_size() < SMALLEST or not _is_dense(tensor):
            return tensor
        return self.store(tensor)

    @abstractmethod
    def store(self, tensor: Tensor) -> Stored:
        """Copies a tensor away."""


def _unpack(packed: Any) -> Tensor:
    return packed.get() if isinstance(packed, Stored) else packed


class OnDisk(Stored):
    """A mapped file without a name, which lives as long as its mapping."""

    def __init__(self, tensor: Tensor, folder: Path):
        with tempfile.NamedTemporaryFile(dir=folder, prefix="hires-offload-") as file:
            # a mapping that finds the disk full later ends the process without a word
            os.posix_fallocate(file.fileno(), 0, tensor.numel() * tensor.element_size())
            flat = torch.from_file(file.name, shared=True, size=tensor.numel(), dtype=tensor.dtype)
        self._stored = flat.as_strided(tensor.size(), tensor.stride()).copy_(tensor.detach())

    def get(self) -> Tensor:
        return torch.empty_strided(self._stored.size(), self._stored.stride(), dtype=self._stored.dtype).copy_(
            self._stored
        )


class DiskOffload(Offload):
    """Memory-mapped files in a folder, gone with the process. Raises ConfigError if it cannot be used."""

    def __init__(self, folder: str | Path):
        self._folder = Path(folder).expanduser()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"memory.offload_dir: {folder} cannot be used ({error.strerror})") from error

    def store(self, tensor: Tensor) -> Stored:
        try:
            return OnDisk(tensor, self._folder)
        except OSError as error:
            raise TrainingError(
                f"memory.offload_dir: {self._folder} cannot hold what is offloaded ({error.strerror})"
            ) from error


class OnHost(Stored):
    """A copy in pinned memory; both ways run on a stream of their own."""

    def __init__(self, tensor: Tensor, stream: Any, before: "OnHost | None"):
        self._device, self._stream, self._before = tensor.device, stream, before
        self._fetched: Tensor | None = None
        self._host = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, pin_memory=True)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(stream):
            self._host.copy_(tensor.detach(), non_blocking=True)
        tensor.record_stream(stream)

    def fetch(self) -> None:
        """Starts to bring the tensor back, ahead of `get`."""
        if self._fetched is None:
            with torch.cuda.stream(self._stream):
                self._fetched = self._host.to(self._device, non_blocking=True)

    def get(self) -> Tensor:
        """Backward goes the opposite way, so what was stored before this comes next."""
        self.fetch()
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        tensor, self._fetched = self._fetched, None
        assert tensor is not None
        tensor.record_stream(current)
        before, self._before = self._before, None
        if before is not None:
            before.fetch()
        return tensor


class HostOffload(Offload):
    """Pinned host memory, for tensors on one CUDA device."""

    def __init__(self, device: torch.device):
        self._stream = torch.cuda.Stream(device)
        self._last: OnHost | None = None

    def store(self, tensor: Tensor) -> Stored:
        self._last = OnHost(tensor, self._stream, self._last)
        return self._last


def make_offload(device: torch.device, folder: str | Path | None) -> Offload | None:
    """Where saved tensors of a device go; None for the CPU without a folder."""
    if device.type == "cuda":
        return HostOffload(device)
    return DiskOffload(folder) if folder is not None else None


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements lie side by side, in whatever order."""
    if tensor.is_contiguous():
        return True
    order = sorted(range(tensor.dim()), key=lambda dim: (tensor.stride(dim), tensor.size(dim)), reverse=True)
    return tensor.permute(order).is_contiguous()
