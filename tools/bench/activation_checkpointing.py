"""Memory and step time of activation checkpointing: our policies and timm's own flag, the same task and inputs.

Live tensors of one training step (forward, loss, backward, AdamW with its state made), and the step times of all
settings in turns, in one process, on the CPU. The network is an FPN.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from results import conditions, write

from hires.engine.step import train_step
from hires.interfaces import DataLimits, Sample
from hires.losses.segmentation import LossSettings
from hires.memory.checkpointing import apply_policies
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.units import find_units
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.fpn import FpnSettings
from hires.tasks.segmentation import SegmentationSettings, SegmentationTask

POLICIES: dict[str, Any] = {
    "none": "none",
    "selective": "selective",
    "full, backbone": {f"stage{i}": "full" for i in range(1, 5)} | {"stem": "full"},
    "full, all but the loss": "full but loss",
    "full": "full",
    "full@2": "full@2",
    "full@stage": "full@stage",
}
TIMM = "timm's flag"


def make_task(backbone: str, classes: int) -> SegmentationTask:
    torch.manual_seed(0)
    network = FpnSettings().build(BackboneSettings(name=backbone, pretrained=False).build(), classes)
    settings = SegmentationSettings(loss=LossSettings(cross_entropy=1.0, dice=0.0))
    return settings.build(network, classes).to(memory_format=torch.channels_last).train()


def variant(task: SegmentationTask, name: str) -> SegmentationTask:
    """A copy of the task under one setting."""
    task = copy.deepcopy(task)
    if name == TIMM:
        task.network.backbone.net.model.set_grad_checkpointing(True)
        return task
    said, units = POLICIES[name], find_units(task, task.stages())
    if said == "full but loss":
        said = {unit.name: "full" for unit in units if unit.stage != "loss"}
    apply_policies(task, units, said)
    return task


def step_of(task: SegmentationTask, samples: list[Sample]) -> tuple[Callable[[], Any], torch.optim.Optimizer]:
    optimizer = torch.optim.AdamW(task.parameters(), lr=1e-4)
    return partial(train_step, task, samples, optimizer, micro_batch_size=len(samples)), optimizer


def measured(task: SegmentationTask, samples: list[Sample]) -> dict[str, float]:
    """MiB of live tensors in the second step, parameters and optimizer state included."""
    step, optimizer = step_of(task, samples)
    step()
    state = [t for values in optimizer.state.values() for t in values.values() if isinstance(t, torch.Tensor)]
    with LivePeak([*tensors_of(task), *state]) as meter:
        step()
    return {"peak": meter.peak / 2**20, "before": meter.start / 2**20}


def timed(steps: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every setting's steps, in turns; one round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(-1, rounds):
        for name, step in list(steps.items())[:: 1 if turn % 2 else -1]:
            begin = time.perf_counter()
            step()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbones", nargs="+", default=["resnet50", "convnext_tiny", "efficientnet_b0"])
    parser.add_argument("--size", type=int, default=512, help="side of an image, pixels")
    parser.add_argument("--time-size", type=int, default=256, help="side of an image when timing, pixels")
    parser.add_argument("--classes", type=int, default=19)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="steps of each setting that are timed; 0: none")
    parser.add_argument("--many", type=int, default=150, help="classes of one more case, memory alone; 0: none")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/activation_checkpointing.json"))
    options = parser.parse_args()
    bench_all(options)
    if options.many:
        options.backbones, options.classes, options.rounds = options.backbones[:1], options.many, 0
        options.out = options.out.with_name(f"{options.out.stem}_{options.many}_classes.json")
        bench_all(options)


def bench_all(options: argparse.Namespace) -> None:
    content: dict[str, Any] = {
        "settings": {key: value for key, value in vars(options).items() if key not in ("out", "many")},
        **conditions(),
        "backbones": {},
    }
    for backbone in options.backbones:
        content["backbones"][backbone] = bench(backbone, options)
        write(options.out, content)


def bench(backbone: str, options: argparse.Namespace) -> dict[str, Any]:
    """Memory and times of all settings of one backbone."""
    task = make_task(backbone, options.classes)
    names = [*POLICIES, TIMM]
    samples, small = (make_samples(task, options.batch, size) for size in (options.size, options.time_size))
    memory = {name: measured(variant(task, name), samples) for name in names}
    steps = {name: step_of(variant(task, name), small)[0] for name in names}
    seconds = timed(steps, options.rounds) if options.rounds else {}
    ratios = {
        name: statistics.median(a / b for a, b in zip(values, seconds["none"], strict=True))
        for name, values in seconds.items()
    }
    for name in names:
        print(
            f"{backbone:16} {name:24} {memory[name]['peak']:8.0f} MiB  time x {ratios.get(name, 0):.2f}",
            flush=True,
        )
    return {"live_mib": memory, "time_ratio": ratios, "seconds": seconds}


def make_samples(task: SegmentationTask, count: int, size: int) -> list[Sample]:
    batch = task.example_batch(count, (size, size), DataLimits())
    return [Sample(image, target, "") for image, target in zip(batch.images, batch.targets, strict=True)]


if __name__ == "__main__":
    main()
