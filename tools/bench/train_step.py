"""Times our training loop against a bare PyTorch loop of the same model, data and precision.

Both run in one process, in turns: a block of our steps, a block of bare ones. Prints and writes the ratio of
the medians. Ours logs, writes metrics.jsonl and updates the learning rate, as in a training; the bare loop
is what one would write by hand: a mean cross-entropy and a mean Dice, by the same arithmetic as ours.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from harness import arguments, in_turns, our_loop, report
from torch.nn import functional as F

from hires.interfaces import IGNORE, DataLimits, Sample
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
            pixels = Pixels(logits, masks, Exclusive(CLASSES), 1.0, torch.ones(CLASSES))
            loss = F.cross_entropy(logits, masks, ignore_index=IGNORE) + dice.loss(dice.sums(pixels), pairs)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    return run


def main() -> None:
    options = arguments(__doc__, "docs/bench/train_step.json").parse_args()
    batch = make_task(options.backbone).example_batch(options.batch, (options.size, options.size), DataLimits())
    samples = [Sample(i, t, "") for i, t in zip(batch.images, batch.targets, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        ours = our_loop(make_task(options.backbone), samples, options.steps, Path(folder))
        bare = bare_loop(options.backbone, samples, options.steps)
        report(in_turns(ours, bare, options.pairs), options)


if __name__ == "__main__":
    main()
