"""The command `profile`: the units of a model, and what the configuration makes of them."""

from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from torch import nn

from hires.engine.display import log_to
from hires.memory.policies import policies_of
from hires.memory.units import Unit, find_units
from hires.recipe import Recipe, read_recipe
from hires.wiring import make_task


def profile(cfg: DictConfig) -> dict[str, Any]:
    """Shows every unit with its policy; returns them by name. Needs no data if model.num_classes is given."""
    console = Console()
    log_to(console, None)
    recipe = read_recipe(cfg)
    task = make_task(recipe, _classes(recipe), training=None, load_pretrained=False)
    units = find_units(task, task.stages())
    policies = policies_of(recipe.memory.activation_checkpointing, units)
    rows = {unit.name: {"policy": str(policies[unit.name]), **_described(task, unit)} for unit in units}
    table = Table("unit", "policy", "parameters", "modules", box=None, pad_edge=False)
    for name, row in rows.items():
        table.add_row(name, row["policy"], f"{row['parameters']:,}", ", ".join(row["modules"]))
    console.print(table)
    return {"command": "profile", "units": rows}


def _classes(recipe: Recipe) -> tuple[str, ...]:
    count = recipe.model.num_classes
    return tuple(map(str, range(count))) if count else recipe.data.source("train").classes


def _described(root: nn.Module, unit: Unit) -> dict[str, Any]:
    """Parameters and modules of a unit."""
    modules = [root.get_submodule(name) for name in unit.modules]
    parameters = sum(p.numel() for module in modules for p in module.parameters())
    named = [name.removeprefix("network.").removeprefix("backbone.net.model.") for name in unit.modules]
    return {"parameters": parameters, "modules": named}
