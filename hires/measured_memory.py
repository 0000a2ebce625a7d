"""What a setting's training occupies: three steps in a process of its own, which runs `main`."""

import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig, OmegaConf

from hires.engine.files import write_json
from hires.examples import Examples
from hires.interfaces import DataLimits, Sample
from hires.learner import make_task
from hires.memory.events import allocator_peak
from hires.memory.limit import Limit
from hires.memory.meter import LivePeak
from hires.memory.profile import CONTEXT
from hires.ops.out_of_memory import is_out_of_memory
from hires.ops.parent import end_with_parent
from hires.ops.process_memory import THRESHOLD, Growth
from hires.recipe import read_recipe
from hires.trainings import Training, begin, begin_on_examples, open_material

log = logging.getLogger(__name__)

STEPS = 3
"""The first makes the optimizer's state, so that the second is the first with everything there: two are enough
to see the peak, and the third says how long they take."""


class Measured(NamedTuple):
    """What a training took; bytes. None is what could not be measured."""

    allocated: int | None = None
    reserved: int | None = None
    live: int | None = None  # of tensors, without what kernels need; not on CUDA
    seconds: float | None = None  # of a step, without the first
    spread: int | None = None  # of what the steps after the first reserved
    retries: int = 0  # of CUDA's allocator, which make steps slow
    out_of_memory: bool = False  # or ended by the system


def measure_memory(
    name: str,
    cfg: DictConfig,
    examples: Examples | None = None,
    *,
    live: bool = False,
    limit: int | None = None,
    steps: int = STEPS,
) -> Measured:
    """The peak of a training with the configuration in so many steps; of a process that failed, nothing.

    With a `limit`, what would reserve more bytes than that is out of memory. `live` tensors are counted on
    request: that takes one more training.
    """
    with tempfile.TemporaryDirectory() as folder:
        order, peak = Path(folder, "order.json"), Path(folder, "peak.json")
        wanted = {"classes": examples.classes, "limits": asdict(examples.limits)} if examples else None
        config = OmegaConf.to_container(cfg, resolve=True)
        whose = {"parent": os.getpid(), "live": live, "limit": limit, "steps": steps}
        write_json(order, {"config": config, "examples": wanted, **whose})
        allowing = [word for word in sys.argv[1:] if word.lstrip("+").startswith("allow_targets=")]
        # without -P, a file in the working directory could stand in for a library
        program = ["-P", "-m", "hires.imports", "hires.measured_memory"]
        command = [sys.executable, *program, *allowing, str(order), str(peak)]
        done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Measured(**json.loads(peak.read_text()))
    log.warning("The memory of %s could not be measured: %s", name, _reason(done))
    return Measured(out_of_memory=done.returncode < 0)  # the system ends what takes too much


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why a process failed: its error, or the signal that ended it (9 where memory was short)."""
    if done.returncode < 0:
        return f"its process was ended by signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _environment() -> dict[str, str]:
    """This process's, with its import path and threads, and an allocator that gives back what is freed."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "MALLOC_MMAP_THRESHOLD_": str(THRESHOLD),
        "KINETO_LOG_LEVEL": "6",
    }


class Trial(NamedTuple):
    """Trainings that begin anew each time, and the samples of their first steps."""

    begin: Callable[[], Training]
    batches: list[list[Sample]]

    def run(
        self, steps: int | None = None, after: Callable[[], None] = lambda: None
    ) -> tuple[Training, list[float]]:
        """A training after so many steps, and the seconds of each; `after` is called behind each."""
        training, seconds = self.begin(), []
        for batch in self.batches[:steps]:
            start = time.perf_counter()
            training.update(batch)
            training.wait()
            seconds.append(time.perf_counter() - start)
            after()
        return training, seconds


def trial_on_data(cfg: DictConfig, steps: int) -> Trial:
    material = open_material(read_recipe(cfg), cfg, {})
    batches = list(material.batches(steps))
    return Trial(partial(begin, material, batches[0]), batches)


def trial_on_examples(cfg: DictConfig, examples: Examples, steps: int) -> Trial:
    recipe = read_recipe(cfg)
    start = partial(begin_on_examples, recipe, examples.classes, examples.normalization(recipe))
    task = make_task(recipe, examples.classes, training=None, load_pretrained=False)
    samples = examples.samples(task, recipe.top.batch_size, recipe.image_size)
    return Trial(start, [samples] * steps)


def measured(trial: Trial, *, live: bool, limit: Limit) -> Measured:
    """What a training takes in this process, whose imports are done and which has opened its data."""
    try:
        with limit, Growth(limit.before) as growth:
            training, seconds = trial.run(after=growth.mark)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return Measured(out_of_memory=True)
    device = training.learner.fabric.device
    median = statistics.median(seconds[1:])
    if device.type == "cuda":
        most, retries = (
            torch.cuda.max_memory_allocated(device),
            torch.cuda.memory_stats(device)["num_alloc_retries"],
        )
        reserved = torch.cuda.max_memory_reserved(device) + CONTEXT["cuda"]  # which cannot be told from others'
        return Measured(most, reserved, seconds=median, retries=retries)
    del training
    gc.collect()
    # Once more from the beginning: what the profiler and the meter note takes memory itself.
    allocated = allocator_peak(lambda: trial.run(steps=2))
    spread = max(growth.parts[1:]) - min(growth.parts[1:])
    found = Measured(allocated, growth.bytes, seconds=median, spread=spread)
    if not live:
        return found
    with LivePeak() as meter:
        trial.run(steps=2)
    return found._replace(live=meter.peak)


def main() -> None:
    order, peak = map(Path, sys.argv[-2:])
    content = json.loads(order.read_text())
    end_with_parent(content["parent"])
    cfg, wanted, steps = OmegaConf.create(content["config"]), content["examples"], content["steps"]
    examples = wanted and Examples(tuple(wanted["classes"]), DataLimits(**wanted["limits"]))
    trial = trial_on_examples(cfg, examples, steps) if examples else trial_on_data(cfg, steps)
    limit = Limit(content["limit"], cfg.trainer.accelerator)
    write_json(peak, measured(trial, live=content["live"], limit=limit)._asdict())
