"""Runs every unit twice on the same input, and names those that do not do the same twice."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from hires.memory.surroundings import Surroundings
from hires.memory.units import Unit
from hires.ops.nested import leaves, map_leaves


def differing_units(root: nn.Module, units: Sequence[Unit], run: Callable[[], Any]) -> dict[str, str]:
    """What differs, by unit, when every unit is run twice within `run`, a forward of the root.

    Compared are results and what autograd saves, bit by bit. Parameters, buffers and random numbers are
    afterwards as before. The root must have no policies.
    """
    found: dict[str, str] = {}
    with torch.no_grad(), Surroundings(root, ()).restored():
        run()  # what depends on a first time has had it
        with _twice(root, units, found):
            run()
    return found


@contextmanager
def _twice(root: nn.Module, units: Sequence[Unit], found: dict[str, str]) -> Iterator[None]:
    modules = [(unit, name, root.get_submodule(name)) for unit in units for name in unit.modules]
    for unit, name, module in modules:
        module.forward = MethodType(_compared(unit.name, name, found), module)
    try:
        yield
    finally:
        for _, _, module in modules:
            del module.forward


def _compared(unit: str, name: str, found: dict[str, str]) -> Callable[..., Any]:
    def forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        surroundings = Surroundings(module, leaves((args, kwargs), Tensor))
        with surroundings.recorded():
            first, result, in_place = _traced(module, args, kwargs)
        if in_place and not hasattr(module, "inplace"):  # such layers are not run again alone
            found.setdefault(unit, f"{name} changes its input in place")
        with surroundings.restored():
            second, _, _ = _traced(module, args, kwargs)
        difference = _difference(first, second)
        if difference:
            found.setdefault(unit, f"{name}: {difference}")
        return result

    return forward


def _traced(module: nn.Module, args: Any, kwargs: Any) -> tuple[list[tuple[str, Tensor]], Any, bool]:
    """What one run of a module saves and returns; its result; whether it changes its input in place.

    It runs on copies of its arguments, and nothing of its graph stays.
    """
    seen: list[tuple[str, Tensor]] = []

    def pack(tensor: Tensor) -> None:
        seen.append((f"saved tensor {len(seen)}", tensor.detach().clone()))

    args, kwargs = map_leaves(_copied, (args, kwargs), Tensor)
    given = [(tensor, tensor._version) for tensor in leaves((args, kwargs), Tensor)]
    with torch.enable_grad(), saved_tensors_hooks(pack, lambda _: torch.empty(0)):
        result = type(module).forward(module, *args, **kwargs)
    results = [(f"result {i}", tensor.detach().clone()) for i, tensor in enumerate(leaves(result, Tensor))]
    in_place = any(tensor._version != version for tensor, version in given)
    return seen + results, map_leaves(Tensor.detach, result, Tensor), in_place


def _copied(tensor: Tensor) -> Tensor:
    """A copy that a module may change in place, and that wants gradients if it can have any."""
    with torch.enable_grad():
        return tensor.detach().requires_grad_(tensor.is_floating_point()).clone()


def _difference(first: list[tuple[str, Tensor]], second: list[tuple[str, Tensor]]) -> str | None:
    if len(first) != len(second):
        return f"{len(first)} tensors, and the second time {len(second)}"
    for (what, one), (_, other) in zip(first, second, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
            return f"{what} is {_described(one)}, and the second time {_described(other)}"
        if not torch.equal(one.nan_to_num(), other.nan_to_num()):
            return f"{what} has other values the second time ({_described(one)})"
    return None


def _described(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"
