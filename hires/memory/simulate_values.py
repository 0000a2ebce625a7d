"""The numbers of fake tensors that follow from the batch alone, as matched anchors do: shapes may depend on them.

Where shapes depend on what a network gives, as proposals do, numbers are invented, as of an untrained network.
Uses private API of PyTorch: dispatch modes, fake tensors and their exceptions.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakIdKeyDictionary

from hires.interfaces import HiresError
from hires.ops.nested import leaves, map_leaves

MOST = 2**24  # elements of a tensor whose numbers are followed
MOST_INVENTED = 2**20
_SCALE = 0.01  # of invented numbers: what detectors' last layers are initialised with


class SimulationError(HiresError):
    """A step does what cannot be simulated."""


class UnknownNumber(SimulationError):
    """A shape depends on a number that the network gives."""


class _Value:
    """The numbers of a tensor, once they have been asked for; those in the same `memory` change together."""

    real: Any = None

    def __init__(self, memory: Any):
        self.memory = memory


_GENERATORS = object()
"""Stands for the memory of all generators of random numbers."""


class _Noted(NamedTuple):
    """An operation that has not been carried out, with the memories that it reads or writes."""

    number: int
    carry_out: Callable[[], None]
    memories: set[Any]


class Values(TorchDispatchMode):
    """While active, above a fake mode: operations work whose results have shapes that depend on numbers.

    Operations on tensors with known numbers are noted, and carried out on the CPU when what follows from them is
    asked for. Raises UnknownNumber where a number is asked for that the network gives, unless it
    is to `invent` small random ones; of what larger tensors choose, all is then taken to be chosen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.invent = False
        self._values = WeakIdKeyDictionary()
        self._memories = WeakIdKeyDictionary()  # by storage
        self._pending: dict[int, _Noted] = {}
        self._touching: dict[Any, list[_Noted]] = defaultdict(list)  # by memory
        self._count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is compiled: no wrapper around each operation

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not all(isinstance(tensor, FakeTensor) for tensor in leaves((args, kwargs), Tensor)):
            args, kwargs = map_leaves(self._adopted, (args, kwargs), Tensor)
        try:
            result = function(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            return self._dependent(function, args, kwargs)
        if self._knows(args, kwargs, result):
            self._note(function, args, kwargs, result)
        elif self.invent and not function._schema.is_mutable:
            self._imagine(result)
        else:
            self._forget_written(function, args, kwargs)
        return result

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Numbers are afterwards what they were before, so that a step can be run once more."""
        before = set(self._pending)
        with unset_fake_temporarily():
            known = [
                (weakref.ref(fake), value, value.real.clone())
                for fake, value in self._values.items()
                if value.real is not None
            ]
        try:
            yield
        finally:
            for reference, value, real in known:
                value.real, fake = real, reference()
                if fake is not None:
                    self._values[fake] = value
            pending, self._pending, self._touching = self._pending, {}, defaultdict(list)
            for noted in pending.values():
                if noted.number in before:
                    self._add(noted)

    def _adopted(self, argument: Tensor) -> Tensor:
        """Real tensors that a module has beside its parameters and buffers become fake ones with known numbers."""
        if isinstance(argument, FakeTensor):
            return argument
        fake = torch.empty_strided(argument.shape, argument.stride(), dtype=argument.dtype, device=argument.device)
        self.know(fake, argument)
        return fake

    def _forget_written(self, function: Any, args: Any, kwargs: Any) -> None:
        for index, name in _written(function):
            for tensor in _tensors(args[index] if index < len(args) else kwargs.get(name)):
                self._forget(tensor)

    def _forget(self, tensor: Tensor) -> None:
        """The numbers of a tensor, and of what lies in the same memory."""
        if tensor in self._values:
            memory = tensor.untyped_storage()._cdata
            for other in list(self._values.keys()):
                if other.untyped_storage()._cdata == memory:
                    del self._values[other]

    def know(self, fake: Tensor, real: Tensor) -> None:
        """A fake tensor has the numbers of a real one, which is not changed."""
        with unset_fake_temporarily():
            self._set(fake, real.detach().cpu().clone())

    def _set(self, fake: Tensor, real: Tensor) -> None:
        value = self._values[fake] = _Value(self._memory(fake))
        value.real = real

    def _memory(self, fake: Tensor) -> Any:
        return self._memories.setdefault(fake.untyped_storage(), object())

    def _knows(self, args: Any, kwargs: Any, result: Any) -> bool:
        inputs = _tensors((args, kwargs))
        if not all(tensor in self._values for tensor in inputs):
            return False
        tensors = [*inputs, *_tensors(result)]
        return bool(tensors) and all(tensor.numel() <= MOST for tensor in tensors)

    def _imagine(self, result: Any) -> None:
        for fake in _tensors(result):
            if fake.numel() > MOST_INVENTED:
                self._values.pop(fake, None)
                continue
            with unset_fake_temporarily():
                self._set(fake, _invented(fake.shape, fake.dtype))

    def _note(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        arguments, results = tree_map(self._valued, (args, kwargs)), _tensors(result)
        values = [self._values.setdefault(tensor, _Value(self._memory(tensor))) for tensor in results]
        like = [(tensor.shape, tensor.dtype) for tensor in results]

        def carry_out() -> None:
            args, kwargs = tree_map(lambda a: a.real if isinstance(a, _Value) else a, arguments)
            try:
                reals = _tensors(function(*args, **kwargs))
            except (RuntimeError, IndexError) as error:  # what only CUDA does, or does with such types
                if not self.invent:
                    raise UnknownNumber(f"{function} cannot be carried out: {error}") from error
                reals = [_invented(*each) for each in like]
            for value, real in zip(values, reals, strict=True):
                value.real = real

        memories = {value.memory for value in (*leaves(arguments, _Value), *values)}
        if torch.Tag.nondeterministic_seeded in function.tags:
            memories.add(_GENERATORS)  # random numbers come in order
        self._count += 1
        self._add(_Noted(self._count, carry_out, memories))

    def _add(self, noted: _Noted) -> None:
        self._pending[noted.number] = noted
        for memory in noted.memories:
            self._touching[memory].append(noted)

    def _valued(self, argument: Any) -> Any:
        if isinstance(argument, torch.device):
            return torch.device("cpu")
        return self._values[argument] if isinstance(argument, Tensor) else argument

    def _real(self, fake: Tensor) -> Tensor | None:
        """The numbers of a tensor, or None where they are not known."""
        if fake not in self._values:
            return None
        with unset_fake_temporarily():
            for noted in self._needed_for(self._values[fake].memory):
                noted.carry_out()
        return self._values[fake].real

    def _needed_for(self, memory: Any) -> list[_Noted]:
        """What touches a memory, or what that touches, in order; so nothing reads what comes later."""
        found, todo = dict[int, _Noted](), [memory]
        while todo:
            for noted in self._touching.pop(todo.pop(), ()):
                if self._pending.pop(noted.number, None) is not None:
                    found[noted.number] = noted
                    todo += noted.memories
        return [found[number] for number in sorted(found)]

    def _dependent(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operation whose shape, or which itself, depends on numbers."""
        if all(self._real(tensor) is not None for tensor in _tensors((args, kwargs))):
            return self._carried_out(function, args, kwargs)
        name = function.overloadpacket.__name__
        if not self.invent and name not in _BOUNDED:
            raise UnknownNumber(f"{function}: it asks for a number that the network gives, which cannot be known")
        if name == "index":
            return function(args[0], [part for index in args[1] for part in self._chosen(index)])
        if name == "masked_select":
            tensor, mask = torch.broadcast_tensors(*args)
            return torch.ops.aten.index.Tensor(tensor, self._chosen(mask))
        if name in _ALL:
            with unset_fake_temporarily():
                all_of_it = _ALL[name](*args, **kwargs)
            return tree_map(lambda real: self._fake(real, args[0].device), all_of_it)
        raise UnknownNumber(f"{function}: it asks for a number that the network gives, which cannot be known")

    def _carried_out(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The result by the numbers of the arguments, all of which are known."""
        device = _tensors((args, kwargs))[0].device
        args, kwargs = tree_map(self._number, (args, kwargs))
        with unset_fake_temporarily():
            result = function(*args, **kwargs)
        return tree_map(lambda r: self._fake(r, device) if isinstance(r, Tensor) else r, result)

    def _number(self, argument: Any) -> Any:
        return self._values[argument].real if isinstance(argument, Tensor) else argument

    def _chosen(self, index: Tensor | None) -> list[Tensor | None]:
        """An index without booleans: the places of those that are true, or where that is not known, of all."""
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            return [index]
        real = self._real(index)
        with unset_fake_temporarily():
            places = (_ones(index.shape) if real is None else real).nonzero().unbind(1)
        return [self._fake(place.contiguous(), index.device) for place in places]

    def _fake(self, real: Tensor, device: torch.device) -> Tensor:
        fake = torch.empty(real.shape, dtype=real.dtype, device=device)
        self._set(fake, real)
        return fake


_ALL: dict[str, Callable[..., Any]] = {
    "nonzero": lambda tensor: _ones(tensor.shape).nonzero(),
    "nms": lambda boxes, *_: _ones((len(boxes),)).nonzero()[:, 0],
    "_unique2": lambda tensor, *_, **__: (torch.arange(tensor.numel()), *torch.arange(0).expand(2, 0)),
    "bincount": lambda tensor, weights=None, minlength=0: torch.zeros(minlength, dtype=torch.int64),
}
"""What operations give when all that they choose from is chosen, or nothing exceeds the bound that is given."""


_BOUNDED = ("index", "masked_select", "bincount")  # whose results are no larger than what they are given


@cache
def _written(function: Any) -> list[tuple[int, str]]:
    """Positions and names of the arguments that an operation changes."""
    return [(index, each.name) for index, each in enumerate(function._schema.arguments) if each.is_write]


def _invented(shape: Any, dtype: torch.dtype) -> Tensor:
    real = torch.zeros(shape, dtype=dtype)
    return (
        real.normal_(0, _SCALE, generator=torch.Generator().manual_seed(0)) if real.is_floating_point() else real
    )


def _ones(shape: Any) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


def _tensors(tree: Any) -> list[Tensor]:
    return list(leaves(tree, Tensor))
