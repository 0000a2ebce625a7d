"""Trainings with trainer.strategy=fsdp2: what they cannot do, and which modules are split together."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hires.engine.sharded import ShardedAverage, shard_task
from hires.engine.sharded_optimizer import check_optimizer, shard_optimizer
from hires.interfaces import ConfigError, MemoryPlan
from hires.learner import Learner
from hires.memory.policies import AUTO, KEY, Policies, parse_policy, policies_of, segments_of
from hires.memory.units import find_units
from hires.recipe import Recipe

FSDP2 = "fsdp2"
NOTE = (
    "trainer.strategy=fsdp2: these are the figures of a process that keeps all parameters; with parts of them it "
    "holds less for parameters, gradients, optimizer and averages, and more for what is exchanged"
)
_WITH = "with trainer.strategy=fsdp2"
_WHOLE = ("head", "loss")
"""Stages that are split with the rest, and whole in all of a step: what runs in them may depend on the sample, and
every process must come to the same exchanges."""


def check_sharding(recipe: Recipe) -> None:
    """Raises ConfigError for what a training cannot be together with split parameters."""
    if recipe.trainer.strategy != FSDP2:
        return
    if recipe.processes == 1:
        raise ConfigError(
            "trainer.strategy: got fsdp2 with one process; set trainer.devices=2 or more, or auto here"
        )
    if recipe.trainer.precision == "16-mixed":
        raise ConfigError(f"trainer.precision: got 16-mixed, allowed {_WITH}: 32-true, bf16-mixed")
    if recipe.trainer.compile:
        raise ConfigError(f"trainer.compile: got true, allowed {_WITH}: false")
    if recipe.to_be_planned and not recipe.memory.plan and not recipe.may_go_unplanned:
        refuse_search(recipe)
    said = recipe.memory.activation_checkpointing
    if said != AUTO:
        _check_policies({"": said} if isinstance(said, str) else said)


def refuse_search(recipe: Recipe) -> None:
    """Raises ConfigError for a search with split parameters, of which predictions know nothing."""
    if recipe.sharded:
        raise ConfigError(
            f"memory: `auto` and memory.maximize are for processes that keep all parameters; {_WITH} give "
            "micro_batch_size, image_size and memory.activation_checkpointing"
        )


def check_whole(recipe: Recipe) -> None:
    """Raises ConfigError for split parameters where one process does all."""
    if recipe.trainer.strategy == FSDP2:
        raise ConfigError(
            "trainer.strategy: got fsdp2, which needs several processes, but settings are compared in one; set "
            "trainer.strategy=auto"
        )


def _check_policies(policies: Mapping[str, str]) -> None:
    for unit, text in policies.items():
        policy = parse_policy(text)
        if policy.kind == "offload":
            key = f"{KEY}.{unit}".rstrip(".")
            raise ConfigError(f"{key}: got {text}, allowed {_WITH}: none, selective, full")


def shard_learner(recipe: Recipe, learner: Learner, plan: MemoryPlan) -> None:
    """Splits all that learns over the processes, in place, when it has been loaded and has the plan's policies.

    Raises ConfigError for what cannot be split, and what does not work then.
    """
    _check_policies(plan.policies)
    task, average, device = learner.task, learner.average, learner.fabric.device
    assert isinstance(average, ShardedAverage)
    settings = replace(recipe.optimizer, layer_decay=None)  # which asks for the layers of a backbone
    check_optimizer(settings.name, settings.build, device)
    before = dict(task.named_parameters())
    shard_task(task, groups(task, plan.policies), device)
    after = dict(task.named_parameters())
    shard_optimizer(learner.optimizer.optimizer, {before[name]: after[name] for name in before})
    average.shard()


def groups(task: Any, policies: Policies) -> list[list[str]]:
    """The modules that are whole at the same time, by name: of a unit, or of units that are run again together."""
    units = find_units(task, task.stages())
    segments = segments_of(policies_of(policies, units), units)
    found: dict[str, list[str]] = {}
    for unit in units:
        if unit.stage not in _WHOLE:
            found.setdefault(segments[unit.name], []).extend(unit.modules)
    return [names for names in found.values() if any([*task.get_submodule(name).parameters()] for name in names)]
