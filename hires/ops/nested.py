"""Tensors inside of lists, tuples and dictionaries."""

import copy
from collections.abc import Callable, Iterator
from typing import Any


def leaves(value: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
    """The objects of a kind in nested lists, tuples and dictionaries, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for child in value.values() if isinstance(value, dict) else value:
            yield from leaves(child, kind)


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
