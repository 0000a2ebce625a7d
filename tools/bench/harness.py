"""What the benches of training loops share: our loop on given samples, turns of two loops, the report."""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from results import conditions, write
from rich.console import Console

from hires.engine.checkpointer import Checkpointer
from hires.engine.display import Display
from hires.engine.fabric import Place, make_fabric
from hires.engine.journal import Journal
from hires.engine.optimizer import OptimizerSettings, SchedulerSettings
from hires.engine.progress import Progress
from hires.engine.reporter import Reporter
from hires.engine.step import Updater, train_step
from hires.engine.trainer import Routine, Trainer
from hires.interfaces import Sample


def arguments(description: str | None, out: str) -> argparse.ArgumentParser:
    """Options that every bench of a training loop has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--size", type=int, default=256, help="side of an image, pixels")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2, help="steps in a block")
    parser.add_argument("--pairs", type=int, default=12, help="blocks of each loop")
    parser.add_argument("--out", type=Path, default=Path(out))
    return parser


def our_loop(task: Any, samples: list[Sample], steps: int, folder: Path) -> Callable[[], None]:
    """A function that trains one block of steps by `Trainer`, which logs and sets the learning rate."""
    fabric = make_fabric("cpu", "32-true")
    raw = OptimizerSettings().build(task)
    optimizer = fabric.setup_optimizers(raw)
    schedule = SchedulerSettings().build(raw, 1000)
    progress = Progress()

    def step(batch: list[Sample]) -> dict[str, torch.Tensor]:
        return train_step(
            task,
            batch,
            optimizer,
            micro_batch_size=len(batch),
            place=Place(fabric.device, channels_last=True),
            autocast=fabric.autocast,
            backward=fabric.backward,
        )

    trainer = Trainer(
        update=Updater(
            step=step,
            schedule=schedule.step_update,
            average=lambda step: None,
            progress=progress,
        ),
        evaluate=dict,
        checkpointer=Checkpointer(folder, {}),
        reporter=Reporter(
            journal=Journal(folder / "metrics.jsonl", []),
            display=Display(Console(quiet=True), max_steps=1000),
            learning_rate=lambda: raw.param_groups[-1]["lr"],
        ),
        routine=Routine(10**9, 1, 10**9, None, "mIoU", None),
        progress=progress,
    )
    return lambda: trainer.fit([samples] * steps)


def in_turns(ours: Callable[[], None], other: Callable[[], None], pairs: int) -> dict[str, list[float]]:
    """Seconds of each block; which loop comes first changes from pair to pair. One block each warms up."""
    loops = {"ours": ours, "bare": other}
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    for pair in range(-1, pairs):
        for name in ("ours", "bare") if pair % 2 else ("bare", "ours"):
            begin = time.perf_counter()
            loops[name]()
            if pair >= 0:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def report(seconds: dict[str, list[float]], options: argparse.Namespace) -> None:
    """Prints the ratio of the step times and writes all of them."""
    per_step = {name: [s / options.steps for s in values] for name, values in seconds.items()}
    medians = {name: statistics.median(values) for name, values in per_step.items()}
    ratio = statistics.median(a / b for a, b in zip(per_step["ours"], per_step["bare"], strict=True))
    content = {
        "ratio": ratio,
        "ratio_of_medians": medians["ours"] / medians["bare"],
        "median_seconds_per_step": medians,
        "seconds_per_step": per_step,
        "settings": {name: str(value) for name, value in vars(options).items() if name != "out"},
        **conditions(),
    }
    write(options.out, content)
    print(f"ours / bare: {ratio:.3f} (median of {options.pairs} pairs)  medians {medians}")
