"""Training windows per second of our loader against decoding the whole image for each of them.

Two sets (HRF photographs with masks, aerial photographs with boxes), two worker processes, no augmentation but the
crop. In turns in one run: ours, with a cache of decoded images that is filled before (warm) or empty (cold);
`albumentations`: OpenCV decodes, A.RandomCrop cuts; `torchvision`: decode_image, v2.RandomCrop. All go through the
same loader; only what makes a sample differs. Warm is timed from the first batch on, cold from the start of the
workers, over four windows an image.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

import albumentations
import cv2
import numpy as np
import torch
import torchvision
from results import conditions, write
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

from hires.data.augment import Augment
from hires.data.box_source import BoxSource
from hires.data.label_folder import YoloFolder
from hires.data.loader import StepSampler, make_loader
from hires.data.mask_folder import MaskFolder
from hires.data.settings import DataSettings, WindowSettings
from hires.data.windows import WindowDataset
from hires.interfaces import Sample

BATCH, WORKERS, COLD = 4, 2, 4
MORE = 10  # windows of ours for each of the others, so that blocks take about as long
PEERS = ("albumentations", "torchvision")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--size", type=int, default=512, help="side of a window, pixels")
    parser.add_argument("--windows", type=int, default=64, help="windows in a block of the others")
    parser.add_argument("--pairs", type=int, default=5, help="blocks of each")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/loader.json"))
    options = parser.parse_args()
    if not options.data.exists():
        print(f"not run: no {options.data}")
        return
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    report = {
        "batch": BATCH,
        "workers": WORKERS,
        "cold_windows_per_image": COLD,
        "settings": {name: getattr(options, name) for name in ("size", "windows", "pairs")},
        **conditions(),
        "versions": {module.__name__: module.__version__ for module in (albumentations, cv2, torchvision)},
        "sets": {},
    }
    for name, settings in (("hrf", hrf), ("aerial_cars", aerial_cars)):
        report["sets"][name] = found = compared(lambda cache, s=settings: s(options.data, cache), options)
        print(name, json.dumps(found["ratios"]), json.dumps(found["median_windows_per_second"]))
    report["load_average"] = {"before": report["load_average"], "after": os.getloadavg()[0]}
    write(options.out, report)


def hrf(data: Path, cache: str) -> DataSettings:
    """Photographs of eyes, 3504 x 2336, with masks of the vessels."""
    return MaskFolder(
        root=str(data / "hrf"),
        images="*/images/*.jpg",
        masks="*/mask/*.tif",
        classes={"background": 0, "vessel": 255},
        splits={"train": "*/images/*"},
        cache_dir=cache,
    )


def aerial_cars(data: Path, cache: str) -> DataSettings:
    """Photographs of roads, most of them 1920 x 1080, with boxes of cars."""
    return YoloFolder(
        root=str(data / "aerial_cars"),
        images="*",
        labels="*.txt",
        classes="aerial.names",
        splits={},
        missing_labels="error",
        cache_dir=cache,
    )


def compared(settings: Callable[[str], DataSettings], options: argparse.Namespace) -> dict[str, Any]:
    """Windows per second of each, in turns, and how many times those of the others ours are."""
    with tempfile.TemporaryDirectory() as filled:
        source = settings(filled).source("train")
        for index in range(len(source)):
            source.read(index)
        warm = ours(source, options.size)
        peers = {name: Peer(source, options.size, name) for name in PEERS}
        rates: dict[str, list[float]] = {}
        for turn in range(options.pairs + 1):
            blocks = {
                "warm": lambda: rate(warm, options.windows * MORE),
                "cold": lambda: cold_rate(settings, options.size, len(source) * COLD),
            }
            for name, peer in peers.items():
                blocks[name] = lambda peer=peer: rate(peer, options.windows)
                blocks[f"{name}_from_start"] = lambda peer=peer: rate(peer, len(source) * COLD, from_start=True)
            names = list(blocks)[turn % len(blocks) :] + list(blocks)[: turn % len(blocks)]
            for name in names:
                found = blocks[name]()
                if turn:  # the first turn brings files into the system's memory
                    rates.setdefault(name, []).append(found)
    ratios = {f"warm/{name}": ratio(rates["warm"], rates[name]) for name in PEERS}
    ratios |= {f"cold/{name}": ratio(rates["cold"], rates[f"{name}_from_start"]) for name in PEERS}
    return {
        "images": len(source),
        "ratios": ratios,
        "median_windows_per_second": {name: statistics.median(values) for name, values in rates.items()},
        "windows_per_second": rates,
    }


def ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def ours(source: Any, size: int) -> WindowDataset:
    padding = 0 if isinstance(source, BoxSource) else None
    return WindowDataset(source, (size, size), WindowSettings(focus=0), Augment(), 0, padding=padding)


def cold_rate(settings: Callable[[str], DataSettings], size: int, windows: int) -> float:
    """With an empty cache; what its folder took is removed behind the clock."""
    with tempfile.TemporaryDirectory() as empty:
        return rate(ours(settings(empty).source("train"), size), windows, from_start=True)


def rate(dataset: Any, windows: int, from_start: bool = False) -> float:
    """Windows per second by two workers, from the first batch on or from their start."""
    steps = windows // BATCH
    loader = make_loader(dataset, StepSampler(steps * BATCH, BATCH, 0, steps), WORKERS, pin_memory=False)
    begin, counted = time.perf_counter(), steps
    for step, batch in enumerate(loader):
        assert all(sample.image.shape[1:] == (dataset.image_size) for sample in batch)
        if step == 0 and not from_start:
            begin, counted = time.perf_counter(), steps - 1
    return counted * BATCH / (time.perf_counter() - begin)


class Peer:
    """The usual data set: reads whole files and throws nearly everything away."""

    def __init__(self, source: Any, size: int, kind: str):
        self.source, self.image_size = source, (size, size)
        self.boxes = isinstance(source, BoxSource)
        self.sample = getattr(self, f"_{kind}")
        padded = [
            albumentations.PadIfNeeded(size, size, border_mode=cv2.BORDER_CONSTANT),
            albumentations.RandomCrop(size, size),
        ]
        boxes = albumentations.BboxParams("pascal_voc", label_fields=["labels"]) if self.boxes else None
        self.compose = albumentations.Compose(padded, bbox_params=boxes)
        self.crop = v2.RandomCrop(size, pad_if_needed=True)

    def __getitem__(self, key: tuple[int, int]) -> Sample:
        index = int(np.random.default_rng(key).integers(len(self.source)))
        return self.sample(index, self.source.path(index))

    def _albumentations(self, index: int, path: Path) -> Sample:
        image = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
        if self.boxes:
            objects = self.source.objects(index)
            limits = np.array(self.source.size(index)[::-1] * 2, np.float32)
            found = self.compose(image=image, bboxes=objects["boxes"].clip(0, limits), labels=objects["labels"])
            target = {
                "boxes": torch.as_tensor(np.asarray(found["bboxes"], np.float32).reshape(-1, 4)),
                "labels": torch.as_tensor(np.asarray(found["labels"], np.int64)),
            }
        else:
            found = self.compose(image=image, mask=self._mask(index))
            target = {"mask": torch.from_numpy(np.ascontiguousarray(found["mask"]))}
        pixels = np.ascontiguousarray(found["image"].transpose(2, 0, 1))
        return Sample(torch.from_numpy(pixels), target, path.name)

    def _torchvision(self, index: int, path: Path) -> Sample:
        image = tv_tensors.Image(decode_image(str(path), ImageReadMode.RGB))
        if self.boxes:
            objects = self.source.objects(index)
            boxes = tv_tensors.BoundingBoxes(
                torch.from_numpy(objects["boxes"]), format="XYXY", canvas_size=image.shape[-2:]
            )
            target = {"boxes": boxes, "labels": torch.from_numpy(objects["labels"])}
        else:
            target = {"mask": tv_tensors.Mask(torch.from_numpy(self._mask(index)))}
        image, target = self.crop(image, target)
        plain = {name: value.as_subclass(torch.Tensor).contiguous() for name, value in target.items()}
        return Sample(image.as_subclass(torch.Tensor).contiguous(), plain, path.name)

    def _mask(self, index: int) -> np.ndarray:
        """Of an image of HRF; torchvision does not read TIFF."""
        image = self.source.path(index)
        mask = cv2.imread(str(image.parents[1] / "mask" / f"{image.stem}.tif"), cv2.IMREAD_GRAYSCALE)
        return (mask > 127).astype(np.uint8)


if __name__ == "__main__":
    main()
