"""The command `profile`: what a training step occupies, predicted without running it, or measured beside that."""

import logging
import time
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from omegaconf import DictConfig

from hires import hydra_job, runs
from hires.engine.display import Terminal, log_to
from hires.engine.files import write_json, write_text
from hires.examples import Examples, examples_of
from hires.measured_memory import Measured, measure_memory
from hires.memory.kinds import KINDS
from hires.memory.mixtures import Mixtures, fit, overhead_of
from hires.memory.needs import needs_of
from hires.memory.policies import as_override, parse_policy, policies_of, shortened
from hires.memory.profile import MemoryProfile
from hires.memory.report import sampled, unit_rows, verdict
from hires.planning import budget_of
from hires.recipe import Recipe, of_one_process, read_recipe
from hires.sharding import NOTE, check_sharding
from hires.simulated_training import SimulatedTraining, device_of
from hires.unplanned import settled_for
from hires.visualize.memory import page, table

log = logging.getLogger(__name__)

RESULT, PAGE = "memory.json", "memory.html"


def profile(cfg: DictConfig) -> dict[str, Any]:
    """Predicts the memory of a step; returns what it writes to memory.json.

    Needs no data if model.num_classes is set.
    """
    console = Terminal()
    log_to(console, None)
    cfg = settled_for("profile", cfg, hydra_job.said())
    recipe = read_recipe(cfg)
    recipe.given_plan()  # what is wrong with it is said before the work
    check_sharding(recipe)
    device = device_of(recipe)
    examples, notes = examples_of(recipe)
    training = SimulatedTraining(recipe, examples, device)
    policies_of(recipe.memory.activation_checkpointing, training.units)  # what is wrong is said before the work
    found = predicted(training, _measured(cfg, recipe, device, examples) if recipe.memory.measure else Measured())
    run_dir = runs.new_run_dir(cfg.run_dir, "profile")  # only now: whatever was wrong has been said
    outcome = {
        "command": "profile",
        "run_dir": str(run_dir),
        "overrides": hydra_job.overrides(),
        **found,
        "notes": [*notes, *_notes(recipe, device), *([NOTE] if recipe.sharded else [])],
    }
    write_json(run_dir / RESULT, outcome)
    write_text(run_dir / PAGE, page(outcome))
    console.print(table(outcome))
    log.info("Done: %s", run_dir / PAGE)
    return outcome


def _measured(cfg: DictConfig, recipe: Recipe, device: str, examples: Examples) -> Measured:
    """What the step of one process occupies on the device that it is predicted for."""
    cfg = of_one_process(cfg, recipe.share)
    cfg.trainer.accelerator = device
    return measure_memory("the step", cfg, examples, live=True)


def predicted(training: SimulatedTraining, measured: Measured) -> dict[str, Any]:
    """What memory.json says of a step."""
    recipe, said = training.recipe, training.recipe.memory.activation_checkpointing
    begin, plan = time.perf_counter(), training.recipe.given_plan()
    policies = policies_of(said, training.units)
    alternatives = {policy: training.profile(policy, plan.micro_batch_size) for policy in _alternatives(training)}
    known = alternatives.get(said) if isinstance(said, str) else None
    chosen = known or training.profile(said, plan.micro_batch_size)
    each = {policy: profile for policy, profile in alternatives.items() if "@" not in policy}
    rows = unit_rows(training.units, policies, chosen, each)
    plan = replace(plan, policies={name: str(policy) for name, policy in policies.items()})
    return {
        "device": chosen.device,
        "precision": recipe.trainer.precision,
        "plan": asdict(plan),
        "peak_bytes": {
            "predicted": {"allocated": chosen.allocated, "reserved": chosen.reserved},
            "allocated": measured.allocated,
            "reserved": measured.reserved,
        },
        "live": chosen.live,
        "live_measured": measured.live,
        "peak_at": chosen.peak_at._asdict(),
        "categories": chosen.categories,
        "reserved_parts": {"context": chosen.context, "allocator": chosen.cached},
        "units": {name: {**training.described[name], **row} for name, row in rows.items()},
        "alternatives": {
            name: {"allocated": p.allocated, "reserved": p.reserved, "cost": sum(p.recomputed().values())}
            for name, p in alternatives.items()
        },
        "fitting": _fitting(training, alternatives),
        "timeline": sampled(chosen.timeline),
        "verdict": verdict(chosen, alternatives),
        "seconds": time.perf_counter() - begin,
    }


def _alternatives(training: SimulatedTraining) -> list[str]:
    """The policies that all units can have, `none` first; those of segments only for a budget."""
    segments = ["full@2", "full@stage"] if training.recipe.memory.budget else []
    kept_here = [kind for kind in KINDS if kind != "offload"]
    return [*kept_here, *segments, *(["offload"] if training.offloads else [])]


def _fitting(training: SimulatedTraining, alternatives: dict[str, MemoryProfile]) -> dict[str, Any] | None:
    """The cheapest policies within memory.budget, or those that come nearest; None without a budget."""
    said, units = training.recipe.memory.budget, training.units
    if said is None:
        return None
    budget = budget_of(training.recipe)
    # what is offloaded takes time that is not estimated
    known = {name: profile for name, profile in alternatives.items() if name != "offload"}
    needs = {name: needs_of(profile, [unit.name for unit in units]) for name, profile in known.items()}
    policies, found = fit(
        Mixtures(units, needs),
        partial(training.profile, micro_batch_size=training.recipe.micro_batch_size),
        budget,
        overhead=overhead_of(known),
        known=known,
    )
    parsed = {name: parse_policy(policy) for name, policy in policies.items()}
    return {
        "budget": budget,
        "fits": found.reserved <= budget,
        "policies": policies,
        "override": as_override(shortened(parsed, training.units)),
        "allocated": found.allocated,
        "reserved": found.reserved,
        "cost": sum(found.recomputed().values()),
    }


def _notes(recipe: Recipe, device: str) -> list[str]:
    """What the prediction leaves out, or takes for granted."""
    notes = []
    if device == "cuda":
        notes.append(
            "Predicted for CUDA: the context and the workspace of kernels are allowances. Not run on CUDA so far."
        )
    said = recipe.memory.activation_checkpointing
    offloads = "offload" in (said.values() if isinstance(said, dict) else [said])
    if offloads and device == "cpu" and recipe.memory.offload_dir is None:
        notes.append("The policy `offload` does nothing on a CPU unless memory.offload_dir is set.")
    if recipe.trainer.compile:
        notes.append("trainer.compile=true is not simulated: this is the step in eager mode.")
    return notes
