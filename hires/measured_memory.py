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
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from omegaconf import DictConfig, OmegaConf
from torch.profiler import ProfilerActivity, profile

from hires.compare_training import Material, begin, open_material
from hires.engine.files import write_json
from hires.interfaces import Sample
from hires.recipe import read_recipe

log = logging.getLogger(__name__)

STEPS = 3
"""The first makes the optimizer's state, so that the second is the first with everything there."""


class Peak(NamedTuple):
    """Bytes; None is what could not be measured."""

    allocated: int | None = None
    reserved: int | None = None


def measure_memory(name: str, cfg: DictConfig) -> Peak:
    """The peak of a training with the configuration; of a process that failed, nothing."""
    with tempfile.TemporaryDirectory() as folder:
        config, peak = Path(folder, "config.json"), Path(folder, "peak.json")
        write_json(config, OmegaConf.to_container(cfg, resolve=True))
        allowing = [word for word in sys.argv[1:] if word.lstrip("+").startswith("allow_targets=")]
        # without -P, a file in the working directory could stand in for a library
        command = [sys.executable, "-P", "-m", "hires.compare_memory", *allowing, str(config), str(peak)]
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


def measured(cfg: DictConfig) -> Peak:
    """The peak of a training in this process, whose imports are done and which has opened its data."""
    material = open_material(read_recipe(cfg), cfg, {})
    samples = list(material.batches(STEPS))
    with Growth() as growth:
        device = _train(material, samples)
    if device.type == "cuda":
        return Peak(torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device))
    gc.collect()
    # Once more from the beginning: what the profiler notes takes memory itself.
    return Peak(allocator_peak(lambda: _train(material, samples)), growth.bytes)


def _train(material: Material, samples: list[list[Sample]]) -> torch.device:
    training = begin(material, samples[0])
    for batch in samples:
        training.update(batch)
    training.wait()
    return training.learner.fabric.device


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


def allocator_peak(run: Callable[[], Any]) -> int | None:
    """Most bytes that PyTorch's CPU allocator had handed out at one moment, of those that `run` asked for."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            run()
        profiled.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    sizes = [event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]"]
    return max(sizes, default=None)


def main() -> None:
    config, peak = map(Path, sys.argv[-2:])
    write_json(peak, measured(OmegaConf.create(json.loads(config.read_text())))._asdict())


if __name__ == "__main__":
    main()
