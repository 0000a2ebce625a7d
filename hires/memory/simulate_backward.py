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
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

_OWN = 4  # most numbers that a node takes: a clone of its input that it saves has one


class SavedTensors:
    """What nodes save, by the sequence number of the node; it can be let go of when the node has run.

    The engine does so by a method of nodes that Python cannot call.
    """

    def __init__(self) -> None:
        self._of_node: dict[int, list[list[Any]]] = {}

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Of all that is saved within, under whatever hooks."""
        begin, end = saved_tensors_hooks.__init__, saved_tensors_hooks.__exit__
        held_by: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

        def init(hooks: Any, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
            both = held_by[hooks] = [pack, unpack]
            begin(hooks, lambda tensor: self._pack(tensor, *both), _unpack)

        def leave(hooks: Any, *error: Any) -> None:
            end(hooks, *error)
            held_by[hooks].clear()

        with (
            patch.object(saved_tensors_hooks, "__init__", init),
            patch.object(saved_tensors_hooks, "__exit__", leave),
            saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor),
        ):
            yield

    def _pack(self, tensor: Tensor, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> list[Any]:
        held = [pack(tensor), unpack, pack]  # nodes keep both, and so what those know
        # a node takes its number before it saves anything
        self._of_node.setdefault(torch.autograd._get_sequence_nr() - 1, []).append(held)
        return held

    def forget(self, node: Any, others: set[int]) -> None:
        """What a node saved; with what it made for that alone, numbers that none of the `others` has."""
        number = node._sequence_nr()
        numbers = [number, *takewhile(lambda n: n not in others, range(number + 1, number + _OWN))]
        for held in chain.from_iterable(self._of_node.pop(n, ()) for n in numbers):
            held.clear()


def _unpack(held: list[Any]) -> Tensor:
    packed, unpack, _ = held
    return unpack(packed)


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
        for root, gradient in zip(roots, gradients, strict=True):
            self._add(root.grad_fn, root.output_nr, gradient)
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
            self._left(node, self._numbers)

    def _step(self, node: Any) -> None:
        inputs = self._inputs.pop(node, {})
        if hasattr(node, "variable"):
            self._accumulate(node.variable, inputs.pop(0))
            return
        gradients = [inputs.pop(i, None) for i in range(len(node._input_metadata))]
        results = _call(node, gradients)
        del gradients
        for index, (following, position) in enumerate(node.next_functions):
            if following is None:
                continue
            gradient, results[index] = results[index], None
            if gradient is not None:
                self._add(following, position, _fitted(gradient, following._input_metadata[position]))
            del gradient
            self._waiting[following] -= 1
            if not self._waiting[following]:
                del self._waiting[following]
                self._push(following)

    def _add(self, node: Any, position: int, gradient: Tensor) -> None:
        """As the engine adds: in place where nobody else has the tensor."""
        inputs = self._inputs.setdefault(node, {})
        if position not in inputs:
            inputs[position] = gradient
            return
        before = inputs.pop(position)
        inputs[position] = before.add_(gradient) if _is_only(before) else before + gradient

    def _accumulate(self, variable: Tensor, gradient: Tensor) -> None:
        if variable.grad is not None:
            variable.grad.add_(gradient)
            return
        if gradient.stride() != variable.stride():
            gradient = torch.empty_like(variable).copy_(gradient)
        variable.grad = gradient.detach()
        self._give(variable.grad)


def _call(node: Any, gradients: list[Tensor | None]) -> list[Tensor | None]:
    """What a node gives to each of its next ones."""
    if not hasattr(node, "apply"):
        results = node(*gradients)
        return list(results) if isinstance(results, tuple) else [results]
    if getattr(node, "materialize_grads", True):
        gradients = [
            torch.zeros(tuple(m.shape), dtype=m.dtype, device=m.device) if g is None else g
            for g, m in zip(gradients, node._input_metadata, strict=True)
        ]
    results = node.apply(*gradients)
    results = list(results) if isinstance(results, tuple) else [results]
    wanted = iter(r for r, needed in zip(results, node.needs_input_grad, strict=True) if needed)
    return [None if following is None else next(wanted, None) for following, _ in node.next_functions]


def _fitted(gradient: Tensor, wanted: Any) -> Tensor:
    """A gradient as the engine gives it to a node: of the shape and type that the forward had there."""
    if gradient.shape != torch.Size(wanted.shape):
        gradient = gradient.sum_to_size(tuple(wanted.shape))
    return gradient if gradient.dtype == wanted.dtype else gradient.to(wanted.dtype)


def _is_only(tensor: Tensor) -> bool:
    """Whether nobody else uses a tensor's memory."""
    alone = torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) <= 2 and sys.getrefcount(tensor) <= 3
    return alone and tensor.is_contiguous()
