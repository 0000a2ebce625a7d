"""Backward in Python, on tensors of a device that is not there, as autograd's engine would run it.

Uses private API of PyTorch: the nodes of autograd's graph.
"""

import heapq
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, takewhile
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from hires.memory.costs import is_dense
from hires.memory.simulate_values import SimulationError

MATERIALIZE = "_hires_materialize"  # of a node of the user's: whether it is to be given zeros for nothing
_OWN = 4  # most numbers that a node takes: a clone of its input that it saves has one


class SavedTensors:
    """What nodes save, by the sequence number of the node; it can be let go of when the node has run.

    The engine does so by a method of nodes that Python cannot call.
    """

    def __init__(self) -> None:
        self._of_node: dict[int, list[ref[_Held]]] = {}

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Of all that is saved within, under whatever hooks."""
        begin, end = saved_tensors_hooks.__init__, saved_tensors_hooks.__exit__
        held_by: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

        def init(hooks: Any, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
            both = held_by[hooks] = [pack, unpack]
            begin(hooks, lambda tensor: self._pack(tensor, *both), _Held.unpacked)

        def leave(hooks: Any, *error: Any) -> None:
            end(hooks, *error)
            held_by.pop(hooks, []).clear()

        with (
            patch.object(saved_tensors_hooks, "__init__", init),
            patch.object(saved_tensors_hooks, "__exit__", leave),
            saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor),
        ):
            yield

    def _pack(self, tensor: Tensor, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> "_Held":
        held = _Held(pack(tensor), unpack, pack)
        # a node takes its number before it saves anything; weakly, for graphs that go without a backward
        self._of_node.setdefault(torch.autograd._get_sequence_nr() - 1, []).append(ref(held))
        return held

    def forget(self, node: Any, others: set[int]) -> None:
        """What a node saved; with what it made for that alone, numbers that none of the `others` has."""
        number = node._sequence_nr()
        numbers = [number, *takewhile(lambda n: n not in others, range(number + 1, number + _OWN))]
        for reference in chain.from_iterable(self._of_node.pop(n, ()) for n in numbers):
            held = reference()
            if held is not None:
                held.clear()


class _Held:
    """What a node keeps of a tensor: what hooks made of it, and the hooks, and so what those know."""

    def __init__(self, packed: Any, unpack: Callable[[Any], Tensor], pack: Callable[[Tensor], Any]):
        self._content: Any = (packed, unpack, pack)

    def unpacked(self) -> Tensor:
        if self._content is None:
            raise SimulationError(
                "a backward needs what another one has let go of: retain_graph=True is missing, or two graphs "
                "were made in turns, which cannot be followed"
            )
        packed, unpack, _ = self._content
        return unpack(packed)

    def clear(self) -> None:
        self._content = None


class Walk:
    """Backward in Python, in the order of the engine, with what it does to gradients in place."""

    def __init__(
        self,
        roots: Sequence[Tensor],
        gradients: Sequence[Tensor],
        arrive: Callable[[Any], None],
        left: Callable[[Any, set[int]], None],
        give: Callable[[Tensor], None],
    ):
        self._arrive, self._left, self._give = arrive, left, give
        self._waiting: dict[Any, int] = {}  # edges into a node that have not brought their gradient
        self._inputs: dict[Any, dict[int, Tensor]] = {}
        self._ready: list[tuple[int, int, Any]] = []
        self._pushed = 0
        self._count_edges([root.grad_fn for root in roots if root.grad_fn is not None])
        brought: list[Tensor | None] = list(gradients)
        for index, root in enumerate(roots):
            self._bring(brought, index, root.grad_fn, root.output_nr)
        for node in dict.fromkeys(root.grad_fn for root in roots):
            if node not in self._waiting:
                self._push(node)

    def _count_edges(self, roots: list[Any]) -> None:
        stack, seen = list(roots), set(roots)
        while stack:
            for node, _ in stack.pop().next_functions:
                if node is None:
                    continue
                self._waiting[node] = self._waiting.get(node, 0) + 1
                if node not in seen:
                    seen.add(node)
                    stack.append(node)
        self._numbers = {node._sequence_nr() for node in seen}

    def _push(self, node: Any) -> None:
        self._pushed += 1
        heapq.heappush(self._ready, (-node._sequence_nr(), self._pushed, node))

    def run(self) -> None:
        while self._ready:
            node = heapq.heappop(self._ready)[2]
            self._arrive(node)
            self._step(node)

    def _step(self, node: Any) -> None:
        inputs = self._inputs.pop(node, {})
        if hasattr(node, "variable"):
            if inputs:
                self._accumulate(node.variable, inputs.pop(0))
            return
        gradients = [inputs.pop(i, None) for i in range(len(node._input_metadata))]
        results = _call(node, gradients)
        for index, (following, position) in enumerate(node.next_functions):
            if following is not None:
                results[index] = _fitted(results[index], following._input_metadata[position])
        del gradients
        self._left(node, self._numbers)
        for index, (following, position) in enumerate(node.next_functions):
            if following is None:
                continue
            if results[index] is not None:
                self._bring(results, index, following, position)
            self._waiting[following] -= 1
            if not self._waiting[following]:
                del self._waiting[following]
                self._push(following)

    def _bring(self, gradients: list[Tensor | None], index: int, node: Any, position: int) -> None:
        """Brings one of a node's gradients to another node as the engine does.

        Adds in place where nobody else has the tensor; what has been added stays until all have been brought.
        """
        inputs, gradient = self._inputs.setdefault(node, {}), gradients[index]
        assert gradient is not None
        if position not in inputs:
            inputs[position], gradients[index] = gradient, None
            return
        before = inputs.pop(position)
        inputs[position] = before.add_(gradient) if _is_only(before) else before + gradient

    def _accumulate(self, variable: Tensor, gradient: Tensor) -> None:
        if variable.grad is not None:
            variable.grad.add_(gradient)
            return
        # the same tensor may be on its way to another parameter
        if sys.getrefcount(gradient) > 2 or not _lies_as(gradient, variable):
            gradient = torch.empty_like(variable).copy_(gradient)
        variable.grad = gradient.detach()
        self._give(variable.grad)


def _call(node: Any, gradients: list[Tensor | None]) -> list[Tensor | None]:
    """What a node gives to each of its next ones."""
    if not hasattr(node, "apply"):
        results = node(*gradients)
        return list(results) if isinstance(results, tuple) else [results]
    for index, metadata in enumerate(node._input_metadata):
        if gradients[index] is None and getattr(node, MATERIALIZE, True):
            gradients[index] = torch.zeros(tuple(metadata.shape), dtype=metadata.dtype, device=metadata.device)
    results = node.apply(*gradients)
    gradients.clear()  # such a node gives away what it was given
    results = list(results) if isinstance(results, tuple) else [results]
    wanted = iter(r for r, needed in zip(results, node.needs_input_grad, strict=True) if needed)
    return [None if following is None else next(wanted, None) for following, _ in node.next_functions]


def _fitted(gradient: Tensor | None, wanted: Any) -> Tensor | None:
    """A gradient as the engine gives it to a node: of the shape and type that the forward had there."""
    if gradient is None:
        return None
    if gradient.shape != torch.Size(wanted.shape):
        gradient = gradient.sum_to_size(tuple(wanted.shape))
    return gradient if gradient.dtype == wanted.dtype else gradient.to(wanted.dtype)


def _is_only(tensor: Tensor) -> bool:
    """Whether nobody else uses a tensor's memory."""
    alone = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) <= 2 and sys.getrefcount(tensor) <= 3
    return alone and is_dense(tensor)


def _lies_as(gradient: Tensor, variable: Tensor) -> bool:
    """Whether a gradient can be that of a variable as it lies in memory."""
    if not is_dense(variable):
        return gradient.is_contiguous()
    lengths = zip(variable.shape, gradient.stride(), variable.stride(), strict=True)
    return all(one == other for size, one, other in lengths if size != 1)
