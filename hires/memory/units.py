"""The units of a model: the blocks of its stages, found by what they hold, whatever the architecture."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

LISTS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
HEAVY = 2  # convolutions and linear layers from which on a module counts as a block


@dataclass(frozen=True)
class Unit:
    """The smallest piece with a policy of its own: a block and the few layers before it."""

    name: str  # stage3.0, or the stage alone when it is the only one
    stage: str
    modules: tuple[str, ...]  # names, seen from the root, in the order in which they run


def find_units(root: nn.Module, stages: Mapping[str, tuple[str, ...]]) -> list[Unit]:
    """The units of all stages, in order; `stages` are names of modules of the root by stage.

    A module that occurs twice belongs to the first. Raises AttributeError for a name that is no module.
    """
    units: list[Unit] = []
    taken: set[nn.Module] = set()
    for stage, names in stages.items():
        inner = [found for name in names for found in _expanded(root, name)]
        groups = _groups(root, [name for name in inner if _is_new(root.get_submodule(name), taken)])
        for number, group in enumerate(groups):
            units.append(Unit(stage if len(groups) == 1 else f"{stage}.{number}", stage, tuple(group)))
    return units


def _is_new(module: nn.Module, taken: set[nn.Module]) -> bool:
    new = module not in taken and not isinstance(module, nn.Identity)
    taken.add(module)
    return new


def _groups(root: nn.Module, names: list[str]) -> list[list[str]]:
    """Every block with the layers before it; those behind the last block belong to it."""
    groups: list[list[str]] = [[]]
    for name in names:
        groups[-1].append(name)
        if _heavy_layers(root.get_submodule(name)) >= HEAVY:
            groups.append([])
    rest = groups.pop()
    if groups:
        groups[-1] += rest
    return groups or ([rest] if rest else [])


def _expanded(root: nn.Module, name: str) -> list[str]:
    """The blocks within a module, or the module."""
    module = root.get_submodule(name)
    # some lists are never called: what is in them is called one by one
    if not (isinstance(module, nn.ModuleList | nn.ModuleDict) or _is_list_of_blocks(module)):
        return [name]
    return [inner for child, _ in module.named_children() for inner in _expanded(root, f"{name}.{child}")]


def _is_list_of_blocks(module: nn.Module) -> bool:
    """Whether most of a module is in blocks: members of a list, or several children of one type."""
    blocks = [child for child in module.children() if _heavy_layers(child) >= HEAVY]
    if not _is_most(blocks, module):
        return False
    alike = [[block for block in blocks if type(block) is kind] for kind in map(type, blocks)]
    return (
        (isinstance(module, LISTS) and len(blocks) > 1)
        or _is_most([block for block in blocks if _is_list_of_blocks(block)], module)
        or any(len(some) > 1 and _is_most(some, module) for some in alike)
    )


def _is_most(children: list[nn.Module], module: nn.Module) -> bool:
    return 2 * sum(map(_heavy_layers, children)) > _heavy_layers(module)


def _heavy_layers(module: nn.Module) -> int:
    """Convolutions and linear layers, by their weights: more than one number for an output channel."""
    owned = [layer.parameters(recurse=False) for layer in module.modules()]
    return sum(any(weight.numel() > len(weight) for weight in weights if weight.dim()) for weights in owned)
