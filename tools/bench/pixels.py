"""Pixels that train at once within a budget: everything kept, timm's flag, the planner, and that with offload.

The largest square image at micro-batch 1, a multiple of 32 pixels, that is predicted to reserve no more than the
budget in bf16 on CUDA, which need not be there; beside it the compute of a step for a pixel, against everything
kept. What is offloaded takes time that is not in it.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from results import conditions, write

from hires.examples import Examples
from hires.interfaces import DataLimits
from hires.memory.search import Found, Search
from hires.memory.shapes import shapes, sizes
from hires.planning import Trainings
from hires.recipe import Recipe, Size, read_recipe
from hires.simulated_training import SimulatedTraining

CASES = {"U-Net, resnet50": ("unet", "resnet50"), "FPN, convnext_tiny": ("fpn", "convnext_tiny")}
CLASSES = 19
MIXED = ("none", "selective", "full", "full@2", "full@stage")
WAYS: dict[str, tuple[str, ...]] = {
    "all kept": ("none",),
    "timm's flag": ("none",),
    "full": ("full",),
    "planner": MIXED,
    "planner, offload": (*MIXED, "offload"),
}


class Flagged(Trainings):
    """Trainings whose backbone has timm's own activation checkpointing."""

    def at(self, size: Size) -> SimulatedTraining:
        training = super().at(size)
        training.module.network.backbone.net.model.set_grad_checkpointing(True)
        return training


def config_of(model: str, backbone: str, *more: str) -> DictConfig:
    overrides = [
        f"model={model}",
        "backbone=timm",
        f"backbone.name={backbone}",
        "backbone.pretrained=false",
        f"model.num_classes={CLASSES}",
        "batch_size=1",
        "micro_batch_size=1",
        "memory=fixed",
        *more,
    ]
    with initialize_config_dir(str(Path("configs").absolute()), version_base="1.3"):
        return compose("profile", overrides)


def recipe_of(model: str, backbone: str) -> Recipe:
    more = ("trainer.precision=bf16-mixed", "batch_size=8", "micro_batch_size=1")
    return read_recipe(config_of(model, backbone, *more))


def largest(recipe: Recipe, way: str, budget: int) -> Found:
    kind = Flagged if way == "timm's flag" else Trainings
    examples = Examples(tuple(map(str, range(CLASSES))), DataLimits())
    trainings = kind(recipe, examples, "cuda")
    first = trainings.at((256, 256))
    search = Search(first.units, {name: name for name in WAYS[way]}, trainings.simulate, "cuda")
    found = search.largest(shapes([1], sizes((1, 1), first.stride, (0, 0))), budget)
    assert found is not None
    return found


def row(found: Found) -> dict[str, Any]:
    pixels = found.shape.pixels
    return {**asdict(found), "side": found.shape.height, "pixels": pixels, "time_per_pixel": found.time / pixels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=8.0)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--out", type=Path, default=Path("docs/bench/pixels.json"))
    options = parser.parse_args()
    content: dict[str, Any] = {**conditions(), "budget": int(options.gib * 2**30), "cases": {}}
    for case in options.cases:
        rows = content["cases"][case] = {}
        for way in WAYS:
            rows[way] = row(largest(recipe_of(*CASES[case]), way, content["budget"]))
            first, here = rows["all kept"], rows[way]
            print(
                f"{case:20} {way:18} {here['side']:5} px  {here['pixels'] / 1e6:5.1f} Mpx  "
                f"pixels {here['pixels'] / first['pixels']:.2f}  "
                f"time a pixel {here['time_per_pixel'] / first['time_per_pixel']:.2f}  "
                f"allocated {here['allocated'] / 2**30:.2f}  reserved {here['reserved'] / 2**30:.2f} GiB",
                flush=True,
            )
            write(options.out, content)


if __name__ == "__main__":
    main()
