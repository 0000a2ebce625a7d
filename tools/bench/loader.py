"""Training windows per second of our data set against decoding the whole image for each and cropping.

Both make the same windows of the same set in one process, in turns, without augmentation. Ours reads from the
cache of decoded images, which the first pass fills; what that costs is told beside it.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from hires.data.augment import Augment
from hires.data.mask_folder import MaskFolder, MaskSource
from hires.data.mask_targets import MaskTargets
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset
from hires.interfaces import Window

FOCUS = WindowSettings(focus=0.5)


class DecodeThenCrop:
    """The usual data set: reads two files, throws nearly everything away."""

    def __init__(self, source: MaskSource):
        self.source, self.classes, self.multilabel = source, source.classes, False

    def targets(self, settings: WindowSettings) -> MaskTargets:
        return MaskTargets(self, settings)

    def __len__(self) -> int:
        return len(self.source)

    def name(self, index: int) -> str:
        return self.source.name(index)

    def size(self, index: int) -> tuple[int, int]:
        return self.source.size(index)

    def mask(self, index: int) -> np.ndarray:
        return self.source.mask(index)

    def read(self, index: int, window: Window | None = None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        assert window is not None
        image = cv2.imread(str(self.source.root / self.source.name(index)), cv2.IMREAD_COLOR_RGB)
        mask_name = self.source.name(index).replace("/images/", "/mask/").replace(".jpg", ".tif")
        mask = cv2.imread(str(self.source.root / mask_name), cv2.IMREAD_GRAYSCALE)
        area = slice(window.y, window.y + window.height), slice(window.x, window.x + window.width)
        return image[area].copy(), {"mask": (mask[area] > 127).astype(np.uint8)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--size", type=int, default=512, help="side of a window, pixels")
    parser.add_argument("--windows", type=int, default=10, help="windows in a block")
    parser.add_argument("--pairs", type=int, default=10, help="blocks of each")
    parser.add_argument("--out", type=Path, default=Path("docs/bench/loader.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = hrf(options.data, folder)
        begin = time.perf_counter()
        source = settings.source("train")
        ours = dataset(source, options.size)
        for index in range(len(source)):
            source.read(index)
        filling = time.perf_counter() - begin
        plain = dataset(DecodeThenCrop(source), options.size)
        check_equal(ours, plain)
        rates = in_turns({"ours": ours, "decode_then_crop": plain}, options.windows, options.pairs)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    pairs = zip(rates["ours"], rates["decode_then_crop"], strict=True)
    report = {
        "ratio": statistics.median(a / b for a, b in pairs),
        "median_windows_per_second": medians,
        "windows_per_second": rates,
        "seconds_to_fill_the_cache": filling,
        "images": len(source),
        "settings": {name: str(value) for name, value in vars(options).items() if name not in ("out", "data")},
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"ours / decode then crop: {report['ratio']:.1f}  medians {medians}  filling the cache {filling:.1f} s")


def hrf(data: Path, cache: str) -> MaskFolder:
    """The HRF photographs, 3504 x 2336, with an empty cache."""
    return MaskFolder(
        root=str(data / "hrf"),
        images="*/images/*.jpg",
        masks="*/mask/*.tif",
        classes={"background": 0, "vessel": 255},
        splits={"train": "*/images/*"},
        cache_dir=cache,
    )


def dataset(source: MaskSource | DecodeThenCrop, size: int) -> WindowDataset:
    return WindowDataset(source, (size, size), FOCUS, Augment(), seed=0)


def check_equal(ours: WindowDataset, plain: WindowDataset) -> None:
    """Both make the same samples."""
    for index in range(3):
        a, b = ours[0, index], plain[0, index]
        if not (a.image.equal(b.image) and a.target["mask"].equal(b.target["mask"])):
            raise SystemExit(f"window {index} differs: the two data sets do not do the same")


def in_turns(datasets: dict[str, WindowDataset], windows: int, pairs: int) -> dict[str, list[float]]:
    """Windows per second of each block; which data set comes first changes from pair to pair."""
    names, rates = list(datasets), {name: [] for name in datasets}
    for pair in range(-1, pairs):
        for name in names if pair % 2 else reversed(names):
            seconds = timed(datasets[name], range((pair + 1) * windows, (pair + 2) * windows))
            if pair >= 0:
                rates[name].append(windows / seconds)
    return rates


def timed(data: WindowDataset, indices: range) -> float:
    begin = time.perf_counter()
    for index in indices:
        data[0, index]
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
