"""Plans within 1, 2 and 4 GiB on the CPU: found, run for 20 steps under the hard limit, and the next larger one.

Three trainings, the largest micro-batch and the largest image size. The 20 steps have two micro-batches each at
1 GiB, else one, for time; the probes before have two. Cases that the JSON has already are not run again.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from results import conditions, read, when, write

from hires.examples import examples_of
from hires.measured_memory import measure_memory
from hires.memory.predictions import Shape
from hires.planning import Planner
from hires.plans import find_plan, with_plan
from hires.recipe import read_recipe

STEPS = 20
TRAININGS = (("unet", "resnet18"), ("fpn", "convnext_atto"), ("fcos", "resnet18"))
GOALS = ("batch", "resolution")


class Case(NamedTuple):
    gib: int
    model: str
    backbone: str
    goal: str

    def config(self) -> DictConfig:
        overrides = [
            f"model={self.model}",
            "backbone=timm",
            f"backbone.name={self.backbone}",
            "backbone.pretrained=false",
            "model.num_classes=19",
            "image_size=256",
            f"batch_size={64 * self.gib if self.goal == 'batch' else 4}",
            "memory.min_micro_batch=2",
            "trainer.accelerator=cpu",
            f"memory.budget={self.gib}GiB",
            f"memory.maximize={self.goal}",
        ]
        with initialize_config_dir(str(Path("configs").absolute()), version_base="1.3"):
            return compose("autobatch", overrides)


def run(case: Case) -> dict[str, Any]:
    cfg = case.config()
    recipe = read_recipe(cfg)
    examples, _ = examples_of(recipe)
    begin = time.perf_counter()
    plan, planner, _ = find_plan(cfg, recipe)
    seconds = time.perf_counter() - begin
    limit = planner.budget
    settled = with_plan(cfg, plan)
    micro_batches = 2 if case.gib == 1 else 1  # a step takes its time
    settled.batch_size = min(settled.batch_size, micro_batches * plan.micro_batch_size)
    steps = measure_memory("20 steps", settled, examples, limit=limit, steps=STEPS)
    assert plan.predicted is not None
    return {
        **case._asdict(),
        **when(),
        "micro_batch_size": plan.micro_batch_size,
        "image_size": plan.image_size,
        "predicted": plan.predicted.reserved,
        "probes": [{"measured": probe.measured.reserved, "fits": probe.fits} for probe in planner.probes],
        "search_seconds": planner.seconds,
        "seconds": seconds,
        "steps": {
            "micro_batches": micro_batches,
            "survived": not steps.out_of_memory,
            "reserved": steps.reserved,
            "seconds": steps.seconds,
        },
        "next": _next(case, planner, Shape(plan.micro_batch_size, *plan.image_size)),
    }


def _next(case: Case, planner: Planner, shape: Shape) -> dict[str, Any] | None:
    """The next larger shape with the policies by which it needs least: what is predicted, and whether it fails."""
    larger = next((each for each in planner.shapes if each.pixels > shape.pixels), None)
    if larger is None:
        return None
    found = planner.search.smallest(larger)
    cfg = case.config()
    cfg.image_size, cfg.micro_batch_size = [larger.height, larger.width], larger.micro_batch
    cfg.batch_size = min(cfg.batch_size, 2 * larger.micro_batch)
    cfg.memory.activation_checkpointing, cfg.memory.maximize = planner.short(found.policies), None
    examples, _ = examples_of(read_recipe(cfg))
    measured = measure_memory("the next", cfg, examples, limit=planner.budget)
    return {"shape": larger._asdict(), "predicted": found.reserved, "failed": measured.out_of_memory}


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for gib, (model, backbone), goal in product(options.gib, TRAININGS, GOALS):
        yield Case(gib, model, backbone, goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", nargs="*", type=int, default=[1, 2, 4])
    parser.add_argument("--out", type=Path, default=Path("docs/bench/autobatch.json"))
    options = parser.parse_args()
    rows = read(options.out, {"cases": []})["cases"]
    done = {Case(*(row[field] for field in Case._fields)) for row in rows}
    for case in cases(options):
        if case in done:
            continue
        rows.append(run(case))
        row = rows[-1]
        used = (row["steps"]["reserved"] or 0) / (case.gib * 2**30)
        print(
            f"{case.gib} GiB  {case.model:5} {case.backbone:14} {case.goal:10} {row['micro_batch_size']:3} x "
            f"{row['image_size']}  used {used:.1%}  20 steps: {row['steps']['survived']}  next: {row['next']}  "
            f"search {row['search_seconds']:.1f} s",
            flush=True,
        )
        write(options.out, {**conditions(), "cases": rows})


if __name__ == "__main__":
    main()
