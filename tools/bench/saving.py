"""Times what saving checkpoints costs a training at the default interval.

Steps of our training loop and saves of the same model come in turns in one process. A state has the weights, their
average, an AdamW state and all random states, as that of a training; it is written whole, with its checksum, and
flushed to the disk. Prints and writes a save's share of the time of the steps between two saves.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from harness import arguments, our_loop
from results import conditions, write
from train_step import make_task

from hires.engine.checkpointer import Checkpointer
from hires.engine.ema import ExponentialAverage
from hires.engine.optimizer import OptimizerSettings, ResumableOptimizer
from hires.engine.progress import Progress
from hires.engine.settings import TrainerSettings
from hires.interfaces import DataLimits, Sample


def make_checkpointer(task: Any, folder: Path) -> Checkpointer:
    """A checkpointer of a task, its average and an optimizer whose state is there."""
    optimizer = OptimizerSettings().build(task)
    for parameter in task.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    parts = {
        "task": task,
        "ema": ExponentialAverage(task, 0.999),
        "optimizer": ResumableOptimizer(optimizer),
        "progress": Progress(),
    }
    return Checkpointer(folder, parts)


def timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@contextmanager
def flushes_timed() -> Iterator[list[float]]:
    """The seconds of each fsync."""
    seconds: list[float] = []
    fsync = os.fsync
    os.fsync = lambda handle: seconds.append(timed(lambda: fsync(handle)))  # type: ignore[assignment]
    try:
        yield seconds
    finally:
        os.fsync = fsync


def main() -> None:
    parser = arguments(__doc__, "docs/bench/saving.json")
    parser.set_defaults(size=512, batch=2, steps=1, pairs=7)
    parser.add_argument(
        "--every", type=int, default=TrainerSettings().checkpoint_every, help="steps between saves"
    )
    options = parser.parse_args()
    task = make_task(options.backbone)
    batch = task.example_batch(options.batch, (options.size, options.size), DataLimits())
    samples = [Sample(i, t, "") for i, t in zip(batch.images, batch.targets, strict=True)]
    steps, saves, flushes = [], [], []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        train, checkpointer = our_loop(task, samples, options.steps, folder), make_checkpointer(task, folder)
        for turn in range(-1, options.pairs):  # the first one warms up
            step = timed(train) / options.steps
            with flushes_timed() as flushed:
                save = timed(lambda: checkpointer.save("last"))
            if turn >= 0:
                steps, saves, flushes = [*steps, step], [*saves, save], [*flushes, sum(flushed)]
        mebibytes = (folder / "last.pt").stat().st_size / 2**20
    share = statistics.median(saves) / (options.every * statistics.median(steps))
    content = {
        "share": share,
        "checkpoint_every": options.every,
        "checkpoint_mib": mebibytes,
        "median_seconds": {
            "step": statistics.median(steps),
            "save": statistics.median(saves),
            "fsync_in_a_save": statistics.median(flushes),
        },
        "seconds_per_step": steps,
        "seconds_per_save": saves,
        "settings": {key: str(value) for key, value in vars(options).items() if key != "out"},
        **conditions(),
    }
    write(options.out, content)
    print(f"a save of {mebibytes:.0f} MiB takes {share:.2%} of {options.every} steps: {content['median_seconds']}")


if __name__ == "__main__":
    main()
