"""Carries out memory plans: the policies of the units of a learner, and what to fall back to."""

import logging
from collections.abc import Callable
from dataclasses import replace

import torch

from hires.engine.fabric import Place
from hires.engine.step import collate
from hires.interfaces import ConfigError, MemoryPlan, Sample
from hires.learner import Learner
from hires.memory.checkpointing import give_policies
from hires.memory.policies import parse_policy, policies_of
from hires.memory.rungs import rungs_of
from hires.memory.shapes import least_micro_batch
from hires.memory.units import find_units
from hires.memory.verify import differing_units
from hires.recipe import Recipe

log = logging.getLogger(__name__)


def with_policies(
    recipe: Recipe, learner: Learner, plan: MemoryPlan, samples: Callable[[], list[Sample]]
) -> MemoryPlan:
    """The plan with the policy of every unit, which the learner gets; it is verified before and compiled after.

    `samples` gives those that are verified with. The rungs get the policy of every unit too. Raises ConfigError
    for policies of units that the model does not have, and for units that do not do the same twice.
    """
    first = samples()[: plan.micro_batch_size] if recipe.memory.verify else []
    if first:
        check_units(recipe, learner, first)
    policies = apply_plan(recipe, learner, plan)
    units = find_units(learner.task, learner.task.stages())
    rungs = []
    for rung in plan.rungs:
        named = policies_of(rung.policies or recipe.memory.activation_checkpointing, units)
        rungs.append(replace(rung, policies={name: str(policy) for name, policy in named.items()}))
    return replace(plan, policies=policies, rungs=tuple(rungs))


def with_rungs(recipe: Recipe, learner: Learner, plan: MemoryPlan) -> MemoryPlan:
    """A plan that was given has its units recomputed first and then smaller micro-batches to fall back to."""
    if recipe.synchronized and recipe.processes > 1:
        log.info("model.norm=sync: a lack of memory ends the training, since processes wait for all in each layer")
        return replace(plan, rungs=())
    if recipe.sharded:
        log.info("trainer.strategy=fsdp2: a lack of memory in one process ends the training of all")
        return replace(plan, rungs=())
    if plan.rungs or plan.policies:  # one that was found, perhaps on its last rung
        return plan
    task = learner.task
    units = find_units(task, task.stages())
    named = policies_of(recipe.memory.activation_checkpointing, units)
    policies = {name: str(policy) for name, policy in named.items()}
    thrifty = {
        name: policy if parse_policy(policy).kind in ("full", "offload") else "full"
        for name, policy in policies.items()
    }
    least = min(recipe.memory.min_micro_batch or least_micro_batch(task), plan.micro_batch_size)
    rungs = rungs_of(replace(plan, policies=policies), recipe.share, thrifty, least)
    return replace(plan, rungs=rungs)


def apply_plan(recipe: Recipe, learner: Learner, plan: MemoryPlan) -> dict[str, str]:
    """Gives the learner the policies of a plan (those of the settings, where it has none) and returns them."""
    task, memory = learner.task, recipe.memory
    policies = give_policies(
        task,
        find_units(task, task.stages()),
        plan.policies or memory.activation_checkpointing,
        device=learner.fabric.device,
        offload_dir=memory.offload_dir,
    )
    if recipe.trainer.compile:
        task.compile()
    return policies


def exchange_plan(recipe: Recipe, learner: Learner, plan: MemoryPlan) -> None:
    """As `apply_plan`, in the middle of a training: what was compiled under other policies is forgotten."""
    if recipe.trainer.compile:
        torch.compiler.reset()
    apply_plan(recipe, learner, plan)


def check_units(recipe: Recipe, learner: Learner, samples: list[Sample]) -> None:
    """Runs every unit twice on samples. Raises ConfigError that names those that do not do the same twice."""
    task = learner.task
    place = Place(learner.fabric.device, recipe.trainer.channels_last)

    def run() -> None:
        with learner.fabric.autocast():
            task(place(collate(samples)), task.normalizers([sample.target for sample in samples]))

    units = find_units(task, task.stages())
    different = differing_units(task, units, run)
    if different:
        said = "; ".join(f"{unit} ({what})" for unit, what in different.items())
        fix = ", ".join(f"{unit}: none" for unit in different)
        raise ConfigError(f"memory.verify: run twice, these units do not do the same: {said}; give them {{{fix}}}")
    log.info("memory.verify: all %d units do the same twice", len(units))
