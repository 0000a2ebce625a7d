"""Figures of time: loaders, windows of large images, starting, saving."""

from collections.abc import Mapping
from typing import Any

from figures import bench, block, made, span, table

SETS = {"hrf": "HRF (3504 x 2336, masks)", "aerial_cars": "aerial_cars (1920 x 1080, boxes)"}
PEERS = ("albumentations", "torchvision")
STARTS = {"hires --help": "`hires --help`", "hires train --help": "`hires train --help`"}
STARTS |= {
    "completion": "completion of a word",
    "first step": "the first step of a training, without opening its data",
}


@block
def loader() -> str:
    content = bench("loader")
    rows = []
    for name, words in SETS.items():
        ratios = content["sets"][name]["ratios"]
        for kind, cache in (("warm", "cache filled before"), ("cold", "cache empty, four windows an image")):
            found = [ratios[f"{kind}/{peer}"] for peer in PEERS]
            rows.append(
                [f"{words}, {cache}", *(f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}" for ratio in found)]
            )
    versions = content["machine"] if isinstance(content["machine"], Mapping) else {}  # as it once was
    return table(["how many times as fast as", *PEERS], rows, made({**versions, **content}))


@block
def loops() -> str:
    """Our training loops beside those that one would write by hand."""
    contents = {name: bench(name) for name in ("train_step", "detection_step")}
    words = {
        "train_step": "U-Net, against a bare PyTorch loop",
        "detection_step": "FCOS, against torchvision's reference loop",
    }

    def row(name: str, content: Mapping[str, Any]) -> list[str]:
        said = content["settings"]
        setting = f"{said['backbone']}, {said['batch']} x {said['size']} x {said['size']}"
        return [words[name], setting, f"{content['ratio']:.3f}", said["pairs"]]

    head = ["", "network, images", "ratio of step times, median", "pairs"]
    return table(
        head, (row(*item) for item in contents.items()), made(contents["train_step"], list(contents.values()))
    )


@block
def image_windows() -> str:
    content = bench("image_windows")
    rows = (
        [name, *(f"{found[f'{when}_ms']:.1f} ms" for when in ("first", "median", "largest"))]
        + [f"{found['growth_bytes'] / 2**20:.0f} MiB"]
        for name, found in content["layouts"].items()
    )
    return table(["layout", "first window", "median", "longest", "growth of the process"], rows, made(content))


@block
def startup() -> str:
    content = bench("startup")
    seconds = content["median_seconds"]
    rows = [
        [words, f"{seconds[name]['without_data' if name == 'first step' else 'wall']:.2f} s"]
        for name, words in STARTS.items()
    ]
    rows.append(["`import torch` alone, for comparison", f"{seconds['import torch']['wall']:.2f} s"])
    return table(["", "from its start, median"], rows, made(content))


@block
def tilings() -> str:
    """How much of the pixels differ between two tilings of an image."""
    return span((100 * share for share in bench("tilings")["share_of_pixels"].values()), ".2f") + " %"
