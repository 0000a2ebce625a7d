"""The command `profile`: what a training step occupies, predicted without running it, or measured beside that."""

import logging
import time
from dataclasses import asdict, replace
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from hires import runs
from hires.build import make_plan
from hires.data.limits import data_limits
from hires.engine.display import log_to
from hires.engine.files import write_json, write_text
from hires.interfaces import ConfigError, DataLimits
from hires.measured_memory import Peak, measure_memory
from hires.memory.mixtures import Mixtures, fit
from hires.memory.policies import KEY, Policies, parse_policy, policies_of, shortened
from hires.memory.profile import MemoryProfile
from hires.memory.report import sampled, unit_rows, verdict
from hires.recipe import Recipe, read_recipe
from hires.simulated_training import SimulatedTraining
from hires.trainings import Examples
from hires.visualize.memory import page, table

log = logging.getLogger(__name__)

RESULT, PAGE = "memory.json", "memory.html"
OBJECTS = 100
"""In one image, where nothing is said of the data: as many as COCO's evaluation looks at."""


def profile(cfg: DictConfig) -> dict[str, Any]:
    """Predicts the memory of a step; returns what it writes to memory.json.

    Needs no data if model.num_classes is set.
    """
    console = Console()
    log_to(console, None)
    recipe = read_recipe(cfg)
    device = device_of(recipe)
    examples, notes = examples_of(recipe)
    training = SimulatedTraining(recipe, examples, make_plan(recipe), device)
    policies_of(recipe.memory.activation_checkpointing, training.units)  # what is wrong is said before the work
    found = predicted(training, _measured(cfg, device, examples) if recipe.memory.measure else Peak())
    run_dir = runs.new_run_dir(cfg.run_dir, "profile")  # only now: whatever was wrong has been said
    outcome = {
        "command": "profile",
        "run_dir": str(run_dir),
        "overrides": list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else [],
        **found,
        "notes": [*notes, *_notes(recipe, device)],
    }
    write_json(run_dir / RESULT, outcome)
    write_text(run_dir / PAGE, page(outcome))
    console.print(table(outcome))
    log.info("Done: %s", run_dir / PAGE)
    return outcome


def _measured(cfg: DictConfig, device: str, examples: Examples) -> Peak:
    """What the step occupies on the device that it is predicted for."""
    cfg = cfg.copy()
    cfg.trainer.accelerator = device
    return measure_memory("the step", cfg, examples)


def device_of(recipe: Recipe) -> str:
    """The type of the device that a step is predicted for.

    Raises ConfigError if the step is to be measured on one that is not there.
    """
    there = "cuda" if torch.cuda.is_available() else "cpu"
    accelerator = recipe.trainer.accelerator
    device = recipe.memory.device or (there if accelerator == "auto" else accelerator)
    if recipe.memory.measure and device == "cuda" and there != "cuda":
        raise ConfigError("memory.measure: got true, but torch finds no CUDA device here; it is predicted without")
    return device


def examples_of(recipe: Recipe) -> tuple[Examples, list[str]]:
    """What the step is predicted for, of the data if there has to be any, and what is to be said of it."""
    count = recipe.model.num_classes
    if count:
        note = f"No data was looked at (model.num_classes is set): images have up to {OBJECTS} objects."
        detects = recipe.task.kind != "segmentation"
        return Examples(tuple(map(str, range(count))), DataLimits(max_objects=OBJECTS)), [note] * detects
    source: Any = recipe.data.source("train")
    return Examples(source.classes, data_limits(source, recipe.image_size, recipe.data)), []


def predicted(training: SimulatedTraining, measured: Peak) -> dict[str, Any]:
    """What memory.json says of a step."""
    recipe, said = training.recipe, training.recipe.memory.activation_checkpointing
    begin = time.perf_counter()
    policies = policies_of(said, training.units)
    alternatives = {policy: training.profile(policy) for policy in training.alternatives}
    known = alternatives.get(said) if isinstance(said, str) else None
    chosen = known or training.profile(said)
    each = {policy: profile for policy, profile in alternatives.items() if "@" not in policy}
    rows = unit_rows(training.units, policies, chosen, each)
    plan = replace(training.plan, policies={name: str(policy) for name, policy in policies.items()})
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


def _fitting(training: SimulatedTraining, alternatives: dict[str, MemoryProfile]) -> dict[str, Any] | None:
    """The cheapest policies within memory.budget, or those that come nearest; None without a budget."""
    budget = training.budget
    if budget is None:
        return None
    # what is offloaded takes time that is not estimated
    known = {name: profile for name, profile in alternatives.items() if name != "offload"}
    policies, found = fit(Mixtures(training.units, known), known, training.profile, budget)
    parsed = {name: parse_policy(policy) for name, policy in policies.items()}
    return {
        "budget": budget,
        "fits": found.reserved <= budget,
        "policies": policies,
        "override": override(shortened(parsed, training.units)),
        "allocated": found.allocated,
        "reserved": found.reserved,
        "cost": sum(found.recomputed().values()),
    }


def override(said: Policies) -> str:
    """Policies as they are given on the command line."""
    text = said if isinstance(said, str) else "{" + ", ".join(f"{name}: {p}" for name, p in said.items()) + "}"
    return f"{KEY}={text}" if isinstance(said, str) else f"'{KEY}={text}'"


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
