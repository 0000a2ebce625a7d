"""What a computation depends on besides its arguments, kept so that it can be repeated to the same bits."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hires.memory.collectives import Collectives
from hires.ops.random_state import RandomState

SMALL = 2**16  # elements


class Buffer(NamedTuple):
    """A buffer of a module and what was in it."""

    owner: nn.Module
    name: str
    tensor: Tensor
    version: int  # counts changes in place
    copy: Tensor

    @property
    def may_have_changed(self) -> bool:
        """Norms change their statistics without counting it as a change, so that small buffers always may have."""
        replaced = getattr(self.owner, self.name) is not self.tensor
        return replaced or self.tensor._version != self.version or self.tensor.numel() <= SMALL


class Buffers:
    """The buffers of a module as they are now; statistics of norms, counters, whatever a forward changes."""

    def __init__(self, module: nn.Module):
        owners = [(owner, owner.named_buffers(recurse=False)) for owner in module.modules()]
        self._before = [
            Buffer(owner, name, tensor, tensor._version, tensor.detach().clone())
            for owner, tensors in owners
            for name, tensor in tensors
        ]

    def forget_unchanged(self) -> None:
        """Drops the copies of what is still as it was; to be called after the forward."""
        self._before = [buffer for buffer in self._before if buffer.may_have_changed]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """The buffers hold what they held; afterwards they are the ones of before, untouched."""
        now = [(buffer, getattr(buffer.owner, buffer.name)) for buffer in self._before]
        try:
            for buffer, _ in now:
                setattr(buffer.owner, buffer.name, buffer.copy.clone())
            yield
        finally:
            for buffer, tensor in now:
                setattr(buffer.owner, buffer.name, tensor)


class Autocast:
    """What autocast does at the moment to tensors of a type of device."""

    def __init__(self, device_type: str):
        self._settings: dict[str, Any] = {
            "device_type": device_type,
            "enabled": torch.is_autocast_enabled(device_type),
            "dtype": torch.get_autocast_dtype(device_type),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }

    def restored(self) -> torch.autocast:
        return torch.autocast(**self._settings)


class Surroundings:
    """Buffers of a module, random numbers and autocast before a forward, and what collectives give within it."""

    def __init__(self, module: nn.Module, arguments: Iterable[Tensor]):
        tensors = chain(arguments, module.parameters(), module.buffers())
        devices = {tensor.device for tensor in tensors} - {torch.device("meta")}
        self._buffers, self._random, self._collectives = Buffers(module), RandomState(devices), Collectives()
        self._autocast = [Autocast(kind) for kind in sorted({"cpu", *(device.type for device in devices)})]

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """To be around the forward itself."""
        with self._collectives.recorded():
            yield
        self._buffers.forget_unchanged()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Everything is what it was in the forward; afterwards, what it is now."""
        with ExitStack() as stack:
            stack.enter_context(self._collectives.repeated())
            for autocast in self._autocast:
                stack.enter_context(autocast.restored())
            stack.enter_context(self._random.restored())
            stack.enter_context(self._buffers.restored())
            yield
