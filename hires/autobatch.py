"""The command `autobatch`: the plan of a training that fits a budget, and how it was found."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from hires import hydra_job, runs
from hires.engine.display import Terminal, log_to
from hires.engine.files import write_json, write_text
from hires.interfaces import MemoryPlan
from hires.memory.search import Found
from hires.planning import Planner
from hires.plans import PLAN, as_a_training_would, find_plan, plan_text
from hires.recipe import read_recipe
from hires.sharding import check_sharding
from hires.visualize.search import page, table

log = logging.getLogger(__name__)

RESULT, PAGE = "search.json", "search.html"


def autobatch(cfg: DictConfig) -> dict[str, Any]:
    """Finds the plan; returns what it writes to search.json. Needs no data if model.num_classes is set."""
    console = Terminal()
    log_to(console, None)
    check_sharding(read_recipe(cfg))
    cfg = as_a_training_would(cfg)
    recipe = read_recipe(cfg)
    runs.check_run_dir(cfg.run_dir)
    plan, planner, notes = find_plan(cfg, recipe)
    run_dir = runs.new_run_dir(cfg.run_dir, "autobatch")  # only now: whatever was wrong has been said
    outcome = {
        "command": "autobatch",
        "run_dir": str(run_dir),
        "overrides": hydra_job.overrides(),
        **found(plan, planner),
        "notes": notes,
    }
    write_json(run_dir / RESULT, outcome)
    write_text(run_dir / PLAN, plan_text(plan))
    write_text(run_dir / PAGE, page(outcome))
    console.print(table(outcome))
    log.info("Done: %s; train with %s", run_dir / PAGE, by_plan(cfg, plan, run_dir))
    return outcome


def by_plan(cfg: DictConfig, plan: MemoryPlan, run_dir: Path) -> str:
    """What a training with the plan is told on the command line."""
    said = f"memory.plan={run_dir / PLAN}"
    if plan.micro_batch_size <= cfg.batch_size:
        return said
    return (
        f"{said} batch_size={plan.micro_batch_size}; the batch grows {plan.micro_batch_size / cfg.batch_size:.3g} "
        "times, the learning rate not by itself: it is raised as much with SGD (the linear scaling rule), "
        "by the square root of it with Adam, each with a longer warm-up"
    )


def found(plan: MemoryPlan, planner: Planner) -> dict[str, Any]:
    """What search.json says of a search."""
    predicted, measured = plan.predicted, plan.measured
    assert predicted is not None
    return {
        "device": planner.device,
        "goal": planner.goal,
        "budget": planner.budget,
        "plan": asdict(plan),
        "override": planner.override(plan),
        "peak_bytes": {
            "predicted": asdict(predicted),
            "allocated": measured and measured.allocated,
            "reserved": measured and measured.reserved,
        },
        "tried": [_row(each, planner) for each in planner.search.tried],
        "probes": [
            {**_row(probe.found, planner), "measured": probe.measured._asdict(), "fits": probe.fits}
            for probe in planner.probes
        ],
        "seconds": planner.seconds,
    }


def _row(found: Found, planner: Planner) -> dict[str, Any]:
    tried_out = [probe.fits for probe in planner.probes if probe.found == found]
    return {
        "micro_batch_size": found.shape.micro_batch,
        "image_size": [found.shape.height, found.shape.width],
        "policies": planner.short(found.policies),
        "allocated": found.allocated,
        "reserved": found.reserved,
        "cost": found.cost,
        "time": found.time,
        "fits": tried_out[-1] if tried_out else found.reserved <= planner.budget,
    }
