"""Step time of the planner's policies at the peak of timm's own flag, against the flag and everything kept.

The peak is predicted for 2 images of 512 x 512 in float32 on the CPU, and steps of them are timed, all ways in
turns in one process. (Of smaller images Python's part of a step would be larger, which the estimates do not know.)
"""

import argparse
import copy
import statistics
from functools import partial
from pathlib import Path
from typing import Any

from activation_checkpointing import make_samples, make_task, step_of, timed
from hydra import compose, initialize_config_dir
from pixels import MIXED, Flagged
from results import conditions, write

from hires.examples import Examples
from hires.interfaces import DataLimits
from hires.memory.checkpointing import apply_policies
from hires.memory.predictions import Shape
from hires.memory.search import Found, Search
from hires.memory.units import find_units
from hires.planning import Trainings
from hires.recipe import read_recipe

BACKBONES = ("resnet50", "convnext_tiny", "efficientnet_b0")
CLASSES = 19
SHAPE = Shape(2, 512, 512)


def planned(backbone: str) -> tuple[int, Found]:
    """What timm's flag reserves, and the cheapest policies that reserve no more."""
    overrides = [
        "model=fpn",
        "backbone=timm",
        f"backbone.name={backbone}",
        "backbone.pretrained=false",
        f"model.num_classes={CLASSES}",
        "batch_size=2",
        "micro_batch_size=null",
        "memory=fixed",
        "task.loss.dice=0",
    ]
    with initialize_config_dir(str(Path("configs").absolute()), version_base="1.3"):
        recipe = read_recipe(compose("profile", overrides))
    examples = Examples(tuple(map(str, range(CLASSES))), DataLimits())
    flag = Flagged(recipe, examples, "cpu").simulate(SHAPE, "none").reserved
    trainings = Trainings(recipe, examples, "cpu")
    units = trainings.at((SHAPE.height, SHAPE.width)).units
    found = Search(units, {name: name for name in MIXED}, trainings.simulate, "cpu").largest([SHAPE], flag)
    assert found is not None
    return flag, found


def times(backbone: str, found: Found, side: int, rounds: int) -> dict[str, float]:
    """Median seconds of a step: everything kept, timm's flag, the planner."""
    task = make_task(backbone, CLASSES)
    ways: dict[str, Any] = {"all kept": copy.deepcopy(task), "timm's flag": copy.deepcopy(task), "planner": task}
    ways["timm's flag"].network.backbone.net.model.set_grad_checkpointing(True)
    apply_policies(task, find_units(task, task.stages()), found.policies)
    samples = make_samples(task, 2, side)
    steps = {name: partial(step_of(way, samples)[0]) for name, way in ways.items()}
    return {name: statistics.median(seconds) for name, seconds in timed(steps, rounds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=SHAPE.height)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("docs/bench/planner_time.json"))
    options = parser.parse_args()
    content: dict[str, Any] = {**conditions(), "backbones": {}}
    for backbone in BACKBONES:
        flag, found = planned(backbone)
        seconds = times(backbone, found, options.side, options.rounds)
        ratio = seconds["planner"] / seconds["timm's flag"]
        content["backbones"][backbone] = {
            "reserved": {"timm's flag": flag, "planner": found.reserved},
            "policies": found.policies,
            "cost": found.cost,
            "seconds": seconds,
            "ratio": ratio,
        }
        print(
            f"{backbone:16} reserved {found.reserved / 2**20:.0f} of {flag / 2**20:.0f} MiB  "
            f"step time of the planner {ratio:.2f} of timm's flag, "
            f"{seconds['planner'] / seconds['all kept']:.2f} of all kept",
            flush=True,
        )
        write(options.out, content)


if __name__ == "__main__":
    main()
