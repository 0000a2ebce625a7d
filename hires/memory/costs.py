"""What operations compute and move, from shapes alone, and the time that follows."""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from hires.ops.nested import leaves

BALANCE = {"cpu": 10.0, "cuda": 60.0}
"""Floating-point operations of convolutions and matrix products in the time that a byte takes to move.

Orders of magnitude: a core of a server with AVX; GPUs of 8-24 GB with their matrix units.
"""

LAUNCH = {"cpu": 2e5, "cuda": 2e8}
"""In the same operations: what a kernel takes at least, some microseconds."""

MOVING = {"cpu": 100.0, "cuda": 3000.0}
"""In the same operations: a byte on its way out of memory or back: to a disk, by PCIe. Orders of magnitude."""


def work(function: Any, args: Any, kwargs: Any, result: Any, device: torch.device) -> float:
    """The time of one operation in that of a flop: of what it waits for longer. Views and questions are free."""
    if function.is_view or function.overloadpacket in _FREE or function.namespace == "prim":
        return 0.0
    counted = flop_registry.get(function.overloadpacket)
    flops = int(counted(*args, **kwargs, out_val=result)) if counted else 0
    moved = sum(map(size_of, leaves((args, kwargs, result), Tensor)))
    return max(float(flops), BALANCE[device.type] * moved, LAUNCH[device.type])


_aten = torch.ops.aten
_FREE = {_aten.empty, _aten.empty_like, _aten.empty_strided, _aten.detach, _aten._local_scalar_dense}


def size_of(tensor: Tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def is_dense(tensor: Tensor) -> bool:
    """Whether the elements lie side by side, in whatever order."""
    return torch.ops.aten.is_non_overlapping_and_dense(tensor)
