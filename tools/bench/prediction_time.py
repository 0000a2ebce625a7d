"""Processor seconds of predicting the memory of a step, and of a search, for networks of 90 M parameters.

For each: making the training without memory, the prediction under the first policy (on the CPU kernels' workspace
is measured in it, once a model), and the mean of further ones. The searches are those for the largest square
image within 8 GiB that come before a first probe; their simulations are counted.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any

from pixels import CLASSES, MIXED, config_of
from results import conditions, write

from hires.examples import Examples
from hires.interfaces import DataLimits
from hires.memory.predictions import Shape
from hires.memory.search import Search
from hires.memory.shapes import shapes, sizes
from hires.planning import UNMEASURED, Trainings
from hires.recipe import read_recipe

BACKBONE = "convnext_base"
CASES = {
    "FPN, 2 x 512 x 512, CUDA, bf16": ("fpn", "cuda", "bf16-mixed", Shape(2, 512, 512)),
    "FCOS, 2 x 1024 x 1024, CUDA, bf16": ("fcos", "cuda", "bf16-mixed", Shape(2, 1024, 1024)),
    "FPN, 2 x 512 x 512, CPU, float32": ("fpn", "cpu", "32-true", Shape(2, 512, 512)),
}
SEARCHES = {"CUDA, bf16": ("cuda", "bf16-mixed"), "CPU, float32": ("cpu", "32-true")}
BUDGET = 8 * 2**30


def trainings(model: str, device: str, precision: str) -> Trainings:
    recipe = read_recipe(config_of(model, BACKBONE, f"trainer.precision={precision}", "micro_batch_size=1"))
    return Trainings(recipe, Examples(tuple(map(str, range(CLASSES))), DataLimits()), device)


def predicted(model: str, device: str, precision: str, shape: Shape) -> dict[str, Any]:
    """Seconds of each part."""
    made, at = trainings(model, device, precision), [time.process_time()]
    training = made.at((shape.height, shape.width))
    at.append(time.process_time())
    for policy in MIXED:
        made.simulate(shape, policy)
        at.append(time.process_time())
    build, first, *further = (end - begin for begin, end in zip(at, at[1:], strict=False))
    parameters = sum(parameter.numel() for parameter in training.module.parameters())
    return {"parameters": parameters, "build": build, "first": first, "further": statistics.mean(further)}


def searched(device: str, precision: str) -> dict[str, Any]:
    """The search of the FPN: its seconds, how often it simulated, and what it found."""
    made, count = trainings("fpn", device, precision), 0

    def simulate(*words: Any) -> Any:
        nonlocal count
        count += 1
        return made.simulate(*words)

    begin = time.process_time()
    first = made.at((256, 256))
    search = Search(first.units, {name: name for name in MIXED}, simulate, device)
    room = round(BUDGET * (1 - UNMEASURED[precision]))  # as before the first probe
    found = search.largest(shapes([1], sizes((1, 1), first.stride, (0, 0))), room)
    assert found is not None
    return {"seconds": time.process_time() - begin, "simulations": count, "side": found.shape.height}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/bench/prediction_time.json"))
    options = parser.parse_args()
    content: dict[str, Any] = {**conditions(), "backbone": BACKBONE, "budget": BUDGET, "cases": {}}
    for name, case in CASES.items():
        row = content["cases"][name] = predicted(*case)
        print(
            f"{name:36} build {row['build']:.1f} s, first {row['first']:.1f}, further {row['further']:.1f}",
            flush=True,
        )
    content["searches"] = {}
    for name, (device, precision) in SEARCHES.items():
        found = content["searches"][name] = searched(device, precision)
        print(f"search, {name}: {found['seconds']:.1f} s, {found['simulations']} simulations", flush=True)
    content["load_average"] = [content["load_average"], os.getloadavg()[0]]
    write(options.out, content)


if __name__ == "__main__":
    main()
