"""Times our training loop against a bare PyTorch loop of the same model, data and precision.

Both run in one process, in turns: a block of our steps, a block of bare ones. Prints and writes the ratio of
the medians. Ours logs, writes metrics.jsonl and updates the learning rate, as in a training; the bare loop
is what one would write by hand: a mean cross-entropy and a mean Dice, by the same arithmetic as ours.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from torch.nn import functional as F

from hires.engine.checkpointer import Checkpointer
from hires.engine.display import Display
from hires.engine.fabric import Place, make_fabric
from hires.engine.journal import Journal
from hires.engine.optimizer import OptimizerSettings, SchedulerSettings
from hires.engine.progress import Progress
from hires.engine.reporter import Reporter
from hires.engine.step import Updater, train_step
from hires.engine.trainer import Routine, Trainer
from hires.interfaces import IGNORE, DataLimits, Sample
from hires.losses.border import EqualPixels
from hires.losses.labels import Exclusive
from hires.losses.pixels import Pixels
from hires.losses.region import Dice
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.unet import UnetSettings
from hires.tasks.segmentation import SegmentationSettings, SegmentationTask

CLASSES = 4


def make_task(backbone: str) -> SegmentationTask:
    torch.manual_seed(0)
    network = UnetSettings().build(BackboneSettings(name=backbone, pretrained=False).build(), CLASSES)
    return SegmentationSettings().build(network, CLASSES).to(memory_format=torch.channels_last)


def our_loop(backbone: str, samples: list[Sample], steps: int, folder: Path) -> Callable[[], None]:
    """A function that trains one block of steps by `Trainer`."""
    fabric = make_fabric("cpu", "32-true")
    task = make_task(backbone)
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
            task=task,
            step=step,
            schedule=schedule.step_update,
            average=lambda task, step: None,
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


def bare_loop(backbone: str, samples: list[Sample], steps: int) -> Callable[[], None]:
    """A function that trains one block of steps by hand."""
    task = make_task(backbone)
    network, mean, std = task.network, task.normalize.mean * 255, task.normalize.std * 255
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.05)
    dice = Dice(1.0)

    def run() -> None:
        for _ in range(steps):
            images = torch.stack([s.image for s in samples]).to(memory_format=torch.channels_last)
            masks = torch.stack([s.target["mask"] for s in samples]).long()
            logits = network((images.float() - mean) / std)
            pairs = torch.tensor(sum(len(mask.unique()) for mask in masks))
            pixels = Pixels(logits, masks, Exclusive(CLASSES), EqualPixels(), torch.ones(CLASSES))
            loss = F.cross_entropy(logits, masks, ignore_index=IGNORE) + dice(pixels, pairs)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--size", type=int, default=256, help="side of an image, pixels")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2, help="steps in a block")
    parser.add_argument("--pairs", type=int, default=12, help="blocks of each loop")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/train_step.json"))
    options = parser.parse_args()
    batch = make_task(options.backbone).example_batch(options.batch, (options.size, options.size), DataLimits())
    samples = [Sample(i, t, "") for i, t in zip(batch.images, batch.targets, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        ours = our_loop(options.backbone, samples, options.steps, Path(folder))
        bare = bare_loop(options.backbone, samples, options.steps)
        seconds = in_turns(ours, bare, options.pairs)
    per_step = {name: [s / options.steps for s in values] for name, values in seconds.items()}
    medians = {name: statistics.median(values) for name, values in per_step.items()}
    ratio = statistics.median(a / b for a, b in zip(per_step["ours"], per_step["bare"], strict=True))
    report = {
        "ratio": ratio,
        "ratio_of_medians": medians["ours"] / medians["bare"],
        "median_seconds_per_step": medians,
        "seconds_per_step": per_step,
        "settings": {name: str(value) for name, value in vars(options).items() if name != "out"},
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"ours / bare: {ratio:.3f} (median of {options.pairs} pairs)  medians {medians}")


def in_turns(ours: Callable[[], None], bare: Callable[[], None], pairs: int) -> dict[str, list[float]]:
    """Seconds of each block; which loop comes first changes from pair to pair. One block each warms up."""
    loops = {"ours": ours, "bare": bare}
    seconds: dict[str, list[float]] = {"ours": [], "bare": []}
    for pair in range(-1, pairs):
        for name in ("ours", "bare") if pair % 2 else ("bare", "ours"):
            begin = time.perf_counter()
            loops[name]()
            if pair >= 0:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


if __name__ == "__main__":
    main()
