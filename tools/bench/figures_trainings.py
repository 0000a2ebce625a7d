"""Scores of whole trainings, and settings beside each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from figures import NOT_RUN, bench, block, made, mib, table

Row = Mapping[str, Any]
DEFECTS = ("scratch", "pit", "stain")


def _runs() -> dict[str, Row]:
    return bench("trainings")["runs"]


def _score(row: Row | None, key: str) -> str:
    value = row["metrics"].get(key) if row else None
    return NOT_RUN if value is None else f"{value:.3f}"


def minutes_of(row: Row | None) -> str:
    """Of training and evaluation, and on what; nothing where they were not taken."""
    if row is None or "minutes" not in row:
        return ""
    busy = row.get("beside_other_work") or row.get("load_average", 0) > 0.5
    threads = f"{row['threads']} thread{'s' * (row['threads'] > 1)}" + ", beside other work" * bool(busy)
    return f"{row['minutes'] + row.get('evaluation_minutes', 0):.1f} ({threads})"


def _made(*names: str) -> str:
    rows = [row for name, row in _runs().items() if name in names]
    old = (
        " The runs are not kept: the figures are those that this page had."
        if any("source" in r for r in rows)
        else ""
    )
    return made(next((row for row in rows if "torch" in row), {}), rows) + old


def _ways(names: Mapping[str, str], scores: Sequence[str]) -> list[list[str]]:
    runs = _runs()
    return [
        [words, *(_score(runs.get(name), key) for key in scores), minutes_of(runs.get(name))]
        for name, words in names.items()
    ]


@block
def demo() -> str:
    names = {"demo, resized": "whole images resized to 512", "demo": "native windows"}
    base = ["most frequent class everywhere", _score(_runs().get("demo"), "majority_mIoU"), "0", "0", "0", ""]
    rows = [base, *_ways(names, ("mIoU", *(f"IoU/{name}" for name in DEFECTS)))]
    return table(["", "mIoU", *DEFECTS, "minutes"], rows, _made(*names))


@block
def demo_detection() -> str:
    names = {"demo_detection, resized": "whole images resized to 512", "demo_detection": "native windows"}
    rows = _ways(names, ("AP50", "AP", *(f"AP50/{name}" for name in DEFECTS)))
    return table(["", "AP50", "AP", *DEFECTS, "minutes"], rows, _made(*names))


@block
def vessels() -> str:
    names = {
        "hrf_vessels": "with the full-resolution branch",
        "hrf_vessels, no branch": "without it (`model.full_resolution_skip=false`)",
        "hrf_vessels, BatchNorm": "with BatchNorm (`model.norm=batch`)",
    }
    return table(["", "Dice of the vessels", "minutes"], _ways(names, ("Dice/vessel",)), _made(*names))


def _listed(row: Row | None, *keys: str) -> str:
    """Some scores in words, the class where a key has one."""
    if row is None:
        return NOT_RUN
    return ", ".join(
        f"{key.rpartition('/')[2]} {value:.3f}" for key, value in row["metrics"].items() if key in keys
    )


SETS = {
    "dubai_aerial": (
        "36 aerial images of 500 to 2150 pixels, five classes; masks in colours, RGB and palette files",
        ("mIoU", "accuracy"),
    ),
    "magnetic_tile": (
        "120 gray images of tiles, five kinds of defects, soft masks, the class is the folder; tiles never seen",
        ("mIoU", "majority_mIoU", "IoU/sound", "IoU/crack", "IoU/uneven"),
    ),
    "bccd_cells": (
        "168 microscopy images of 640 x 480, boxes of cells; its test list (`split=test`)",
        ("AP50", "AP50/RBC", "AP50/WBC", "AP50/Platelets"),
    ),
    "deeppcb": ("80 scans of circuit boards, 640 x 640, boxes of six kinds of defects", ("AP50",)),
    "aerial_cars": ("41 aerial photographs of up to 4000 x 2250, unlabelled cars among the labelled", ("AP50",)),
    "aerial_cars, resized": ("the same run, evaluated on whole images that are resized to 640 pixels", ("AP50",)),
}
"""By name: the images, and the scores that are shown."""


@block
def sets() -> str:
    runs = _runs()
    rows = [
        [f"`{name.partition(',')[0]}`", images, _listed(runs.get(name), *keys), minutes_of(runs.get(name))]
        for name, (images, keys) in SETS.items()
    ]
    return table(["experiment", "images", "scores on held-out images", "minutes"], rows, _made(*SETS))


def _short(value: float) -> str:
    return f"{value:.1e}".replace("e-0", "e-") if value else "0"


@block
def settings_compared() -> str:
    content = bench("settings_compared")

    def row(name: str, found: Row) -> list[str]:
        differences = [value for value in found["largest_difference"].values() if value is not None]
        numbers = (f"{found['seconds_per_step']:.2f} s", f"{found['ratio']:.2f}")
        shown = ", ".join(_short(value) for value in differences)
        return [f"`{name}`", mib(found["allocated"]), mib(found["reserved"]), *numbers, shown]

    head = [
        "setting",
        "allocated",
        "reserved",
        "step",
        "ratio",
        "largest difference of gradients, parameters, buffers",
    ]
    said = made(content).replace(".*", ", beside other work.*" if content.get("beside_other_work") else ".*")
    return table(head, (row(*item) for item in content["settings"].items()), said)
