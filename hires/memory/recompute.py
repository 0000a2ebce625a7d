"""Forgets what a module saves for its backward, and computes it again when it is wanted.

Non-reentrant activation checkpointing by saved-tensor hooks, as in torch.utils.checkpoint: the graph stays the
one that autograd would have, so that gradients add up in the same order, to the same bits. Beyond that, buffers
are what they were; and modules that follow one another can form one *segment*, whoever calls them: what one of
them gives to the next is then not kept either.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from hires.memory.saved import Forgotten, Kept, RecomputeError, Saved, argument, is_parameter, root_of, saved, sign
from hires.memory.surroundings import Surroundings
from hires.ops.nested import leaves, map_leaves


class Given(NamedTuple):
    """A tensor that a module was given."""

    tensor: Tensor
    version: int  # counts changes in place
    node: Any  # of the graph
    kept: Saved


class Call:
    """One call of a module, `name` in messages; what it saves is not kept.

    Saved tensors have indices from 0 in their order, tensors in the result -1, -2 and so on.
    """

    def __init__(self, module: nn.Module, forward: Callable[..., Any], name: str, segment: str):
        self.segment, self._name, self._module, self._forward = segment, name, module, forward
        self._parameters = list(module.parameters())
        self._arguments: Any = ()
        self._given: list[Given] = []  # while the module runs
        self._described: list[tuple[Any, ...]] = []
        self._expected: dict[int, int] = {}  # how often each index is still going to be wanted
        self._made: dict[int, Tensor] = {}

    def __call__(self, args: Any, kwargs: Any) -> Any:
        tensors = list(leaves((args, kwargs), Tensor))
        self._surroundings = Surroundings(self._module, tensors)
        self._arguments = map_leaves(lambda t: argument(t, self.segment), (args, kwargs), Tensor)
        kept = leaves(self._arguments, (Kept, Forgotten))
        self._given = [Given(t, t._version, t.grad_fn, k) for t, k in zip(tensors, kept, strict=True)]
        with _inside(), self._surroundings.recorded(), saved_tensors_hooks(self._pack, _get):
            result = self._forward(*args, **kwargs)
        self._check_inputs()
        self._sign(result)
        self._given = []
        return result

    def _pack(self, tensor: Tensor) -> Saved:
        index = len(self._described)
        self._described.append(_description(tensor))
        root = root_of(tensor)
        if any(root is root_of(given.tensor) and tensor._version == given.version for given in self._given):
            return saved(tensor, self.segment)
        return Kept(tensor) if is_parameter(tensor) else Forgotten(self, index, tensor)

    def _check_inputs(self) -> None:
        for given in self._given:
            if isinstance(given.kept, Kept) and given.tensor._version != given.version:
                raise RecomputeError(
                    f"{self._name}: it changes its input in place and cannot be run twice; set its policy to none"
                )

    def _sign(self, result: Any) -> None:
        """Marks what the module made, not what it only passed on."""
        passed_on = {id(given.node) for given in self._given}
        for position, tensor in enumerate(leaves(result, Tensor)):
            if tensor.grad_fn is not None and id(tensor.grad_fn) not in passed_on:
                sign(tensor, self, -1 - position)

    def expect(self, index: int) -> None:
        self._expected[index] = self._expected.get(index, 0) + 1

    def again(self, index: int) -> Tensor:
        """The tensor of an index; what has been made stays until it was taken as often as expected."""
        with _one_at_a_time:
            if index not in self._made:
                self._repeat()
            self._expected[index] -= 1
            return self._made[index] if self._expected[index] > 0 else self._made.pop(index)

    def _repeat(self) -> None:
        if any(now is not then for now, then in zip(self._module.parameters(), self._parameters, strict=True)):
            raise RecomputeError(f"{self._name}: its parameters have been exchanged; set its policy to none")
        collector = _Collector(self._described, set(self._expected))
        try:
            args, kwargs = map_leaves(_get, self._arguments, (Kept, Forgotten))
        except RecomputeError as error:
            raise RecomputeError(f"{self._name}: {error}") from error
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


def _description(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype, tensor.device


def _get(kept: Saved) -> Tensor:
    return kept.get()


def _refuse(_: Any) -> Tensor:
    raise RecomputeError(
        "a unit runs a backward inside of its forward, which cannot be repeated; set its policy to none"
    )


_state = threading.local()
_one_at_a_time = threading.RLock()  # random numbers and buffers are exchanged for all threads of autograd


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
    return saved_tensors_hooks(lambda tensor: saved(tensor, segment), _get)
