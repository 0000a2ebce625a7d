"""The policies by name: which modules of a unit run in another way under each."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from hires.memory.forwards import forget_layer, keep_elsewhere, keep_heavy, keep_input
from hires.memory.layers import forgettable_layers

Exchange = tuple[nn.Module, Callable[..., Any]]
"""A module, and what its `forward` becomes: called with the module and the arguments."""


def keep_all(module: nn.Module) -> Iterator[Exchange]:
    """`none`: exchanges nothing."""
    yield from ()


def recompute_light(module: nn.Module) -> Iterator[Exchange]:
    """`selective`: norms and pointwise functions run again."""
    if not any(True for _ in module.parameters()):  # all pointwise, as losses are: nothing in it is worth keeping
        yield module, keep_input
        return
    layers = list(forgettable_layers(module))
    yield from ((layer, forget_layer) for layer in layers)
    if module not in layers:
        yield module, keep_heavy


def recompute_all(module: nn.Module) -> Iterator[Exchange]:
    """`full`: all runs again."""
    yield module, keep_input


def move_away(module: nn.Module) -> Iterator[Exchange]:
    """`offload`: all is kept in other memory."""
    yield module, keep_elsewhere


KINDS: dict[str, Callable[[nn.Module], Iterator[Exchange]]] = {
    "none": keep_all,
    "selective": recompute_light,
    "full": recompute_all,
    "offload": move_away,
}
"""Those of this package; functions of other packages are added by their dotted names (`hires.own_policies`)."""
