"""How much memory the live tensors of a computation take. Uses private API of PyTorch: dispatch modes."""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LivePeak(TorchDispatchMode):
    """While active, the most bytes that tensors took at one moment: `before`, and whatever operations make.

    Counts every storage once, from the operation that makes it until nothing refers to it; not what kernels
    need inside of an operation. Backward must run on the same thread, which it does on a CPU.
    """

    def __init__(self, before: Iterable[Tensor] = ()):
        super().__init__()
        self.live = self.peak = 0
        self._seen: set[int] = set()
        for tensor in before:
            self._count(tensor)
        self.start = self.live

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._count(tensor)
        return result

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._seen or storage.filename is not None:  # a mapped file is no memory
            return
        self._seen.add(key)
        self._change(storage.nbytes())
        weakref.finalize(storage, self._forget, key, storage.nbytes())

    def _forget(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.live -= size

    def _change(self, size: int) -> None:
        self.live += size
        self.peak = max(self.peak, self.live)


def tensors_of(module: torch.nn.Module) -> list[Tensor]:
    """Parameters, their gradients, and buffers."""
    parameters = list(module.parameters())
    return [*parameters, *(p.grad for p in parameters if p.grad is not None), *module.buffers()]
