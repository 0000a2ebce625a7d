"""Pixels that train at once within a budget on the CPU: as pixels.py, but run under the hard limit and measured.

The largest square image that is predicted to fit is trained for three steps in a process that may take no more
than the budget; where it does not get through, the next smaller one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from pixels import CASES, CLASSES, WAYS, Flagged, config_of
from results import conditions, read, when, write

from hires.examples import Examples
from hires.interfaces import DataLimits
from hires.measured_memory import STEPS, Measured, Trial, measured, trial_on_examples
from hires.memory.limit import Limit
from hires.memory.predictions import Shape
from hires.memory.search import Found, Search
from hires.memory.shapes import shapes, sizes
from hires.ops.process_memory import THRESHOLD
from hires.planning import Trainings
from hires.recipe import read_recipe
from hires.trainings import Training

MARGIN = 0.03  # of the budget, as a search leaves before it has probed
TRIES = 3
EXAMPLES = Examples(tuple(map(str, range(CLASSES))), DataLimits())


def order(case: str, precision: str, folder: str) -> DictConfig:
    return config_of(
        *CASES[case], f"trainer.precision={precision}", "trainer.accelerator=cpu", f"memory.offload_dir={folder}"
    )


class Cpu:
    """Searches and measurements of one case within a budget, bytes."""

    def __init__(self, case: str, precision: str, budget: int, folder: str):
        self.cfg, self.budget = order(case, precision, folder), budget

    def largest(self, way: str) -> tuple[Found, list[Shape]]:
        kind = Flagged if way == "timm's flag" else Trainings
        trainings = kind(read_recipe(self.cfg), EXAMPLES, "cpu")
        first = trainings.at((256, 256))
        search = Search(first.units, {name: name for name in WAYS[way]}, trainings.simulate, "cpu")
        allowed = shapes([1], sizes((1, 1), first.stride, (0, 0)))
        found = search.largest(allowed, round(self.budget * (1 - MARGIN)))
        assert found is not None
        return found, allowed

    def run(self, way: str) -> dict[str, Any]:
        """The largest image that gets through, and what that took."""
        found, allowed = self.largest(way)
        at = allowed.index(found.shape)
        for shape in allowed[at : at - TRIES : -1]:
            took = self.measure(way, replace(found, shape=shape))
            if took.seconds is not None:
                side = shape.height
                row = {"side": side, "pixels": side * side, "predicted": found.reserved, "cost": found.cost}
                return {**row, "policies": found.policies, **took._asdict()}
        raise RuntimeError(f"{way}: nothing got through, down from {found.shape}")

    def measure(self, way: str, found: Found) -> Measured:
        cfg = self.cfg.copy()
        cfg.image_size = found.shape.height
        cfg.memory.activation_checkpointing = found.policies
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "order.json")
            path.write_text(
                json.dumps(
                    {
                        "cfg": OmegaConf.to_container(cfg, resolve=True),
                        "flag": way == "timm's flag",
                        "limit": self.budget,
                    }
                )
            )
            command = [sys.executable, __file__, "--step", str(path)]
            environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(THRESHOLD)}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
            return Measured(out_of_memory=True)
        return Measured(**json.loads(done.stdout.splitlines()[-1]))


def step(path: Path) -> None:
    """Three steps in this process, which prints what they took."""
    content = json.loads(path.read_text())
    trial = trial_on_examples(DictConfig(content["cfg"]), EXAMPLES, STEPS)

    def flagged() -> Training:
        training = trial.begin()
        if content["flag"]:
            training.learner.task.network.backbone.net.model.set_grad_checkpointing(True)
        return training

    took = measured(Trial(flagged, trial.batches), live=False, limit=Limit(content["limit"], "cpu"))
    print(json.dumps(took._asdict()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/pixels_cpu.json"), help="rows there stay")
    parser.add_argument("--step", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        return step(options.step)
    content = {**read(options.out, {"cases": {}}), **conditions(), "precision": options.precision}
    content["budget"] = int(options.gib * 2**30)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            rows = content["cases"].setdefault(case, {})
            for way in [way for way in WAYS if way not in rows]:
                rows[way] = {**Cpu(case, options.precision, content["budget"], folder).run(way), **when()}
                write(options.out, content)
                print(shown(case, way, rows), flush=True)


def shown(case: str, way: str, rows: dict[str, Any]) -> str:
    first, here = rows["all kept"], rows[way]
    time = (here["seconds"] / here["pixels"]) / (first["seconds"] / first["pixels"])
    return (
        f"{case:20} {way:18} {here['side']:5} px  pixels {here['pixels'] / first['pixels']:.2f}  "
        f"time a pixel {time:.2f}  reserved {here['reserved'] / 2**30:.3f} GiB"
    )


if __name__ == "__main__":
    main()
