"""Times our training loop of FCOS against torchvision's reference loop of the same network and inputs.

Both run in one process, in turns: a block of our steps, a block of theirs. Theirs is torchvision's FCOS around
our backbone, neck and heads, trained as its reference script does: move, sum the losses, backward, step.
"""

import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import torch
from harness import arguments, in_turns, our_loop, report
from torch import Tensor, nn
from torchvision.models.detection import FCOS
from torchvision.models.detection.anchor_utils import AnchorGenerator

from hires.interfaces import DataLimits, Sample
from hires.losses.dense import FcosLossSettings
from hires.models.backbone import BackboneSettings
from hires.models.detection.fcos import FcosSettings
from hires.models.detection.neck import NeckSettings
from hires.tasks.detection import DetectionSettings, DetectionTask

CLASSES, CHANNELS = 3, 128


def make_task(backbone: str) -> DetectionTask:
    torch.manual_seed(0)
    settings = FcosSettings(neck=NeckSettings(channels=CHANNELS))
    network = settings.build(BackboneSettings(name=backbone, pretrained=False).build(), CLASSES)
    task = DetectionSettings(loss=FcosLossSettings()).build(network, CLASSES)
    return task.to(memory_format=torch.channels_last)


class Maps(nn.Module):
    """The maps of a network's neck by name, as torchvision's detectors take them."""

    out_channels = CHANNELS

    def __init__(self, network: nn.Module):
        super().__init__()
        self.backbone, self.neck = network.backbone, network.neck

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = self.neck(self.backbone(x.contiguous(memory_format=torch.channels_last)))
        return OrderedDict((str(index), level) for index, level in enumerate(maps))


def reference_loop(backbone: str, samples: list[Sample], size: int, steps: int) -> Callable[[], None]:
    """A function that trains one block of steps as torchvision's reference script does."""
    task = make_task(backbone)
    network, strides = task.network, task.network.neck.strides
    model = FCOS(
        Maps(network),
        CLASSES,
        min_size=size,
        max_size=size,
        image_mean=list(network.backbone.mean),
        image_std=list(network.backbone.std),
        anchor_generator=AnchorGenerator(tuple((s,) for s in strides), ((1.0,),) * len(strides)),
        head=network.head,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

    def run() -> None:
        for _ in range(steps):
            images = [sample.image.float() / 255 for sample in samples]
            targets = [{name: sample.target[name] for name in ("boxes", "labels")} for sample in samples]
            losses = sum(model(images, targets).values())
            optimizer.zero_grad()
            losses.backward()
            optimizer.step()
            losses.item()

    return run


def main() -> None:
    parser = arguments(__doc__, "docs/bench/detection_step.json")
    parser.add_argument("--objects", type=int, default=20, help="in an image")
    options = parser.parse_args()
    limits = DataLimits(max_objects=options.objects)
    batch = make_task(options.backbone).example_batch(options.batch, (options.size, options.size), limits)
    samples = [Sample(i, t, "") for i, t in zip(batch.images, batch.targets, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        ours = our_loop(make_task(options.backbone), samples, options.steps, Path(folder))
        theirs = reference_loop(options.backbone, samples, options.size, options.steps)
        report(in_turns(ours, theirs, options.pairs), options)


if __name__ == "__main__":
    main()
