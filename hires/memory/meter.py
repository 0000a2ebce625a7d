"""How much memory the live tensors of a computation take. Uses private API of PyTorch: dispatch modes."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode

from hires.memory.costs import work
from hires.memory.timeline import WORKSPACE, Block, Place, Timeline
from hires.ops.nested import leaves


class LivePeak(TorchDispatchMode):
    """While active, the most bytes that tensors took at one moment: `before`, and whatever operations make.

    Counts every storage once, from the operation that makes it until nothing refers to it; not what kernels
    need inside of an operation. Backward must run on the same thread, which it does on a CPU.
    """

    def __init__(self, before: Iterable[Tensor] = ()):
        super().__init__()
        self.live = self.peak = 0
        self._seen: set[int] = set()
        self._finalizers: dict[int, weakref.finalize[Any, Any]] = {}
        for tensor in before:
            self.count(tensor)
        self.start = self.live

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._counted(function, args, kwargs or {})

    def _counted(self, function: Any, args: Any, kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        for tensor in leaves(result, Tensor):
            self.count(tensor)
        return result

    def count(self, tensor: Tensor) -> None:
        """Counts a tensor's storage from now on, if it is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._seen or tensor.is_meta or storage.filename is not None:  # a mapped file is no memory
            return
        self._seen.add(key)
        size = storage.nbytes()
        self.live += size
        self.peak = max(self.peak, self.live)
        self.born(key, size)
        self._finalizers[key] = weakref.finalize(storage, self._forget, key, size)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for finalizer in self._finalizers.values():  # what happens from now on is not counted
            finalizer.detach()

    def _forget(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self._finalizers.pop(key, None)
        self.live -= size
        self.died(key)

    def born(self, key: int, size: int) -> None:
        """A storage has been made."""

    def died(self, key: int) -> None:
        """Nothing refers to a storage any more."""


class Workspace(Protocol):
    """What kernels take for themselves, bytes."""

    fixed: int  # from the first step on, for good

    def __call__(self, function: Any, args: Any, result: Any) -> int:
        """While an operation runs, beyond its result."""


class Recorder(LivePeak):
    """Also notes every storage's life, the workspace of kernels, and what they compute, by place in the step.

    Only tensors on its device count.
    """

    def __init__(self, device: torch.device, workspace: Workspace | None = None):
        self.timeline, self.place = Timeline(), Place("input")
        self._device, self._workspace = device, workspace
        self._blocks: dict[int, Block] = {}
        super().__init__()
        if workspace and workspace.fixed:
            self.timeline.add(workspace.fixed, self.place, WORKSPACE)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # simulations are never compiled: no wrapper around each operation

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.place.phase == "backward" and torch.is_grad_enabled():
            with self.at(Place("recompute", self.place.unit)):
                return self._recorded(function, args, kwargs)
        return self._recorded(function, args, kwargs)

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """What happens within happens at a place."""
        before, self.place = self.place, place
        try:
            yield
        finally:
            self.place = before

    def _recorded(self, function: Any, args: Any, kwargs: Any) -> Any:
        timeline, place = self.timeline, self.place
        timeline.arrive(place)
        result = self._counted(function, args, kwargs)
        done = work(function, args, kwargs, result, self._device)
        timeline.work[place] = timeline.work.get(place, 0.0) + done
        extra = self._workspace(function, args, result) if self._workspace else 0
        if extra:
            timeline.passing(extra, place, WORKSPACE)
        return result

    def count(self, tensor: Tensor) -> None:
        if tensor.device.type == self._device.type:
            super().count(tensor)

    def born(self, key: int, size: int) -> None:
        self._blocks[key] = self.timeline.add(size, self.place)

    def died(self, key: int) -> None:
        block = self._blocks.pop(key, None)
        if block is not None:
            self.timeline.end(block)

    def use(self, tensors: Iterable[Tensor], unit: str) -> None:
        """Says that a unit is given tensors."""
        for tensor in tensors:
            block = self._blocks.get(tensor.untyped_storage()._cdata)
            if block is not None and block.user is None and block.place.unit != unit:
                block.user = unit

    def give(self, tensors: Iterable[Tensor], category: str) -> None:
        """Says what tensors are for, which are there now."""
        for tensor in tensors:
            self.count(tensor)
            block = self._blocks.get(tensor.untyped_storage()._cdata)
            if block is not None:
                block.category = category


class Labels(TorchDispatchMode):
    """While active, each operation runs within a label of PyTorch's profiler: `prefix`, and its number.

    `notes` has what `note(function, args)` gave for each.
    """

    def __init__(self, prefix: str, note: Callable[[Any, Any], Any]):
        super().__init__()
        self._prefix, self._note = prefix, note
        self.notes: list[Any] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.notes.append(self._note(function, args))
        with record_function(f"{self._prefix}{len(self.notes) - 1}"):
            return function(*args, **(kwargs or {}))


def tensors_of(module: torch.nn.Module) -> list[Tensor]:
    """Parameters, their gradients, and buffers."""
    parameters = list(module.parameters())
    return [*parameters, *(p.grad for p in parameters if p.grad is not None), *module.buffers()]
