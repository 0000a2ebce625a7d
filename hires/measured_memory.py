"""What a setting's training occupies: three steps in a process of its own, which runs this module."""

import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from omegaconf import DictConfig, OmegaConf

from hires.engine.files import write_json
from hires.interfaces import DataLimits, Sample
from hires.memory.events import allocator_peak
from hires.memory.meter import LivePeak
from hires.recipe import read_recipe
from hires.trainings import Examples, Training, begin, begin_on_examples, open_material
from hires.wiring import make_task

log = logging.getLogger(__name__)

STEPS = 3
"""The first makes the optimizer's state, so that the second is the first with everything there."""


class Peak(NamedTuple):
    """Bytes; None is what could not be measured."""

    allocated: int | None = None
    reserved: int | None = None
    live: int | None = None  # of tensors, without what kernels need; not on CUDA


def measure_memory(name: str, cfg: DictConfig, examples: Examples | None = None) -> Peak:
    """The peak of a training with the configuration; of a process that failed, nothing."""
    with tempfile.TemporaryDirectory() as folder:
        order, peak = Path(folder, "order.json"), Path(folder, "peak.json")
        wanted = {"classes": examples.classes, "limits": asdict(examples.limits)} if examples else None
        write_json(order, {"config": OmegaConf.to_container(cfg, resolve=True), "examples": wanted})
        allowing = [word for word in sys.argv[1:] if word.lstrip("+").startswith("allow_targets=")]
        # without -P, a file in the working directory could stand in for a library
        command = [sys.executable, "-P", "-m", "hires.measured_memory", *allowing, str(order), str(peak)]
        done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Peak(**json.loads(peak.read_text()))
    log.warning("The memory of %s could not be measured: %s", name, _reason(done))
    return Peak()


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
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "KINETO_LOG_LEVEL": "5",
    }


class Trial(NamedTuple):
    """Trainings that begin anew each time, and the samples of their first steps."""

    begin: Callable[[], Training]
    batches: list[list[Sample]]

    def run(self) -> Training:
        training = self.begin()
        for batch in self.batches:
            training.update(batch)
        training.wait()
        return training


def trial_on_data(cfg: DictConfig) -> Trial:
    material = open_material(read_recipe(cfg), cfg, {})
    batches = list(material.batches(STEPS))
    return Trial(partial(begin, material, batches[0]), batches)


def trial_on_examples(cfg: DictConfig, examples: Examples) -> Trial:
    recipe = read_recipe(cfg)
    start = partial(begin_on_examples, recipe, examples.classes)
    task = make_task(recipe, examples.classes, training=None, load_pretrained=False)
    samples = examples.samples(task, recipe.top.batch_size, recipe.image_size)
    return Trial(start, [samples] * STEPS)


def measured(trial: Trial, *, live: bool) -> Peak:
    """The peak of a training in this process, whose imports are done and which has opened its data.

    `live` tensors are counted on request: that takes one more training.
    """
    with Growth() as growth:
        device = trial.run().learner.fabric.device
    if device.type == "cuda":
        return Peak(torch.cuda.max_memory_allocated(device), _reserved(device))
    gc.collect()
    # Once more from the beginning: what the profiler and the meter note takes memory itself.
    allocated = allocator_peak(trial.run)
    if not live:
        return Peak(allocated, growth.bytes)
    with LivePeak() as meter:
        trial.run()
    return Peak(allocated, growth.bytes, meter.peak)


def _reserved(device: torch.device) -> int:
    """What the caching allocator took at most, and what else is taken on the device: the context, and others."""
    free, total = torch.cuda.mem_get_info(device)
    return torch.cuda.max_memory_reserved(device) + total - free - torch.cuda.memory_reserved(device)


class Growth:
    """By how much the process's writable private memory (VmData) grew at most, looked up every millisecond."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._begun, self._end = threading.Event(), threading.Event()
        self._watch = threading.Thread(target=self._watching, daemon=True)

    def __enter__(self) -> Self:
        self._watch.start()
        self._begun.wait()
        return self

    def __exit__(self, *error: Any) -> None:
        self._end.set()
        self._watch.join()

    def _watching(self) -> None:
        before = largest = vm_data()  # here, so that the thread's own stack is not counted
        self._begun.set()
        while before is not None and largest is not None:
            ended = self._end.wait(0.001)
            largest = max(largest, vm_data() or 0)
            self.bytes = largest - before
            if ended:
                return


def vm_data() -> int | None:
    """Bytes of writable private memory of this process; None where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), None)


def main() -> None:
    order, peak = map(Path, sys.argv[-2:])
    content = json.loads(order.read_text())
    cfg, wanted = OmegaConf.create(content["config"]), content["examples"]
    examples = wanted and Examples(tuple(wanted["classes"]), DataLimits(**wanted["limits"]))
    trial = trial_on_examples(cfg, examples) if examples else trial_on_data(cfg)
    write_json(peak, measured(trial, live=examples is not None)._asdict())


if __name__ == "__main__":
    main()
