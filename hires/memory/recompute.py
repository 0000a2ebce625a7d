"""Forgets what a module saves for its backward, and computes it again when it is wanted.

Non-reentrant activation checkpointing by saved-tensor hooks, as in torch.utils.checkpoint: the graph stays the
one that autograd would have, so that gradients add up in the same order, to the same bits. Beyond that, buffers
are what they were; and modules that follow one another can form one *segment*, whoever calls them: what one of
them gives to the next is then not kept either.
"""

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from hires.memory.surroundings import Surroundings
from hires.ops.nested import leaves, map_leaves


class RecomputeError(RuntimeError):
    """A module did not do the same twice."""


class Kept:
    """A tensor that stays."""

    def __init__(self, tensor: Tensor):
        self._tensor = tensor

    def get(self) -> Tensor:
        return self._tensor


class Forgotten:
    """A tensor that a call saves or returns, or a view `like` of it: made again when wanted."""

    def __init__(self, call: "Call", index: int, like: Tensor):
        self._call, self._index = call, index
        self._geometry = (like.size(), like.stride(), like.storage_offset())
        call.expect(index)

    def get(self) -> Tensor:
        tensor = self._call.again(self._index)
        if (tensor.size(), tensor.stride(), tensor.storage_offset()) == self._geometry:
            return tensor
        return tensor.as_strided(*self._geometry)


Box = Kept | Forgotten
_KEY = "hires.memory.recompute"  # in the metadata of the nodes of the graph


def box_of(tensor: Tensor, segment: str) -> Box:
    """Forgotten, where a call of the segment returned the tensor or that of which it is a view; else kept."""
    root = _root(tensor)
    signatures: dict[Any, Any] = root.grad_fn.metadata if root.grad_fn is not None else {}  # type: ignore[assignment]
    reference, index = signatures.get((_KEY, root.output_nr), (None, 0))
    call = reference and reference()
    return Forgotten(call, index, tensor) if call and call.segment == segment else Kept(tensor)


class Argument(NamedTuple):
    """A tensor that a module was given."""

    tensor: Tensor
    version: int  # counts changes in place
    node: Any  # of the graph
    box: Box


class Call:
    """One call of a module, `name` in messages; what it saves is not kept.

    Saved tensors have indices from 0 in their order, tensors in the result -1, -2 and so on.
    """

    def __init__(self, module: nn.Module, forward: Callable[..., Any], name: str, segment: str):
        self.segment, self._name, self._module, self._forward = segment, name, module, forward
        self._described: list[tuple[Any, ...]] = []
        self._expected: dict[int, int] = {}  # how often each index is still going to be wanted
        self._made: dict[int, Tensor] = {}

    def __call__(self, args: Any, kwargs: Any) -> Any:
        tensors = list(leaves((args, kwargs), Tensor))
        self._surroundings = Surroundings(self._module, tensors[0].device.type if tensors else "cpu")
        self._arguments = map_leaves(lambda t: box_of(t, self.segment), (args, kwargs), Tensor)
        boxes = leaves(self._arguments, (Kept, Forgotten))
        self._given = [Argument(t, t._version, t.grad_fn, box) for t, box in zip(tensors, boxes, strict=True)]
        with _inside(), self._surroundings.recorded(), saved_tensors_hooks(self._pack, _get):
            result = self._forward(*args, **kwargs)
        self._check_inputs()
        self._sign(result)
        self._given = []
        return result

    def _pack(self, tensor: Tensor) -> Box:
        index = len(self._described)
        self._described.append(_description(tensor))
        root = _root(tensor)
        if any(root is _root(a.tensor) and tensor._version == a.version for a in self._given):
            return box_of(tensor, self.segment)
        if root.is_leaf and root.requires_grad:  # a parameter
            return Kept(tensor)
        return Forgotten(self, index, tensor)

    def _check_inputs(self) -> None:
        for argument in self._given:
            if isinstance(argument.box, Kept) and argument.tensor._version != argument.version:
                raise RecomputeError(
                    f"{self._name}: it changes its input in place and cannot be run twice; set its policy to none"
                )

    def _sign(self, result: Any) -> None:
        """Marks the nodes of the graph that made the result, unless the module only passed it on."""
        passed_on = {id(argument.node) for argument in self._given}
        for position, tensor in enumerate(leaves(result, Tensor)):
            if tensor.grad_fn is not None and id(tensor.grad_fn) not in passed_on:
                tensor.grad_fn.metadata[_KEY, tensor.output_nr] = weakref.ref(self), -1 - position

    def expect(self, index: int) -> None:
        self._expected[index] = self._expected.get(index, 0) + 1

    def again(self, index: int) -> Tensor:
        """The tensor of an index; what has been made stays until it was taken as often as expected."""
        if index not in self._made:
            self._repeat()
        self._expected[index] -= 1
        return self._made[index] if self._expected[index] > 0 else self._made.pop(index)

    def _repeat(self) -> None:
        collector = _Collector(self._described, set(self._expected))
        args, kwargs = map_leaves(lambda box: box.get(), self._arguments, (Kept, Forgotten))
        with _inside(), torch.enable_grad(), self._surroundings.restored(), collector.hooks():
            result = self._forward(*args, **kwargs)
        if collector.difference or collector.seen != len(self._described):
            raise self._error(collector.difference or f"{collector.seen} tensors, not {len(self._described)}")
        self._made.update(collector.take())
        for position, tensor in enumerate(leaves(result, Tensor)):
            if -1 - position in self._expected:
                self._made[-1 - position] = tensor

    def _error(self, difference: str) -> RecomputeError:
        return RecomputeError(
            f"{self._name}: run again, it saved {difference}; it depends on more than its input, parameters, "
            "buffers and random numbers: set its policy to none"
        )


class _Collector:
    """Takes what a second run saves, where it is wanted, and compares it with the first.

    The graph of the second run holds this object for as long as it lives, so it must not hold the call.
    """

    def __init__(self, described: list[tuple[Any, ...]], wanted: set[int]):
        self.seen, self.difference = 0, ""
        self._described, self._wanted = described, wanted
        self._tensors: dict[int, Tensor] = {}

    def hooks(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self._collect, _refuse)

    def _collect(self, tensor: Tensor) -> int:
        before = self._described[self.seen] if self.seen < len(self._described) else "nothing"
        if before != _description(tensor) and not self.difference:
            self.difference = f"{_description(tensor)} where there was {before} (tensor {self.seen})"
        if self.seen in self._wanted:
            self._tensors[self.seen] = tensor.detach()
        self.seen += 1
        return self.seen

    def take(self) -> dict[int, Tensor]:
        tensors, self._tensors = self._tensors, {}
        return tensors


def _root(tensor: Tensor) -> Tensor:
    return tensor if tensor._base is None else tensor._base


def _description(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.device


def _get(box: Box) -> Tensor:
    return box.get()


def _refuse(_: Any) -> Tensor:
    raise RecomputeError(
        "a unit runs a backward inside of its forward, which cannot be repeated; set its policy to none"
    )


_state = threading.local()


def is_inside() -> bool:
    """Whether a module runs whose saved tensors are not kept: what it calls needs no policy of its own."""
    return getattr(_state, "depth", 0) > 0


@contextmanager
def _inside() -> Iterator[None]:
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def keeping(segment: str) -> saved_tensors_hooks:
    """What is saved within is kept, but for what calls of the segment can make again."""
    return saved_tensors_hooks(lambda t: box_of(t, segment), _get)
