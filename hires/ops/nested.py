"""Tensors inside of lists, tuples and dictionaries."""

import copy
from collections.abc import Callable, Iterator
from typing import Any


def leaves(value: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
    """The objects of a kind in nested lists, tuples and dictionaries, in order."""
    found: list[Any] = []
    _gather(value, kind, found)
    return iter(found)


def _gather(value: Any, kind: type | tuple[type, ...], found: list[Any]) -> None:
    if isinstance(value, kind):  # simulations ask this of every argument of every operation: no generators
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for child in value:
            _gather(child, kind, found)
    elif isinstance(value, dict):
        for child in value.values():
            _gather(child, kind, found)


def map_leaves(change: Callable[[Any], Any], value: Any, kind: type | tuple[type, ...]) -> Any:
    """The same structure with every object of a kind changed, in the order of `leaves`; the rest stays."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        changed = {key: map_leaves(change, child, kind) for key, child in value.items()}
        same_kind = copy.copy(value)  # a subclass, with its order or its default
        same_kind.update(changed)
        return same_kind
    if isinstance(value, (list, tuple)):
        children = [map_leaves(change, child, kind) for child in value]
        return type(value)(*children) if hasattr(value, "_fields") else type(value)(children)
    return value
