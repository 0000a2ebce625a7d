"""Figures of what is claimed, for docs/verification.md: what was seen beside what was asked, its day and commit.

The mark `claim NAME` has two cells of a table: the figure, and when it was made.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import results
from figures import BLOCKS, NOT_RUN, NotRun, bench, span
from figures_trainings import minutes_of

Row = Mapping[str, Any]
SHOWN = 3  # commits of a row
TILES = 6  # classes of magnetic_tile


class Seen(NamedTuple):
    """A figure in words, whether it reaches what was asked, and the parts of a JSON that it is made of."""

    text: str
    met: bool
    rows: Sequence[Row]
    whole: bool = True  # whether all was measured that was asked


def claim(name: str, part: str = "") -> Callable[[Callable[[], Seen]], Callable[[], Seen]]:
    """Registers what was seen of a claim, from docs/bench/NAME.json; several claims of one JSON have parts."""

    def register(function: Callable[[], Seen]) -> Callable[[], Seen]:
        BLOCKS[f"claim {name}{', ' * bool(part)}{part}"] = lambda: cells(function)
        return function

    return register


def cells(function: Callable[[], Seen]) -> str:
    try:
        seen = function()
    except NotRun:
        return f"**{NOT_RUN}** | "
    verdict = "" if seen.met else ": **missed**"
    return f"{seen.text}{verdict}{'' if seen.whole else '; **partly measured**'} | {made(seen.rows)}"


def made(rows: Sequence[Row]) -> str:
    """Days and commits of rows."""
    commits = list(dict.fromkeys(row["commit"] for row in rows if "commit" in row))
    said = ", ".join(commits[:SHOWN]) + f" and {len(commits) - SHOWN} more" * (len(commits) > SHOWN)
    if any("commit" not in row for row in rows):
        said = f"{said}, some not recorded" if said else "commit not recorded"
    return f"{results.made(rows).removeprefix('made ')}; {said}"


def dated(content: Row, rows: Sequence[Row]) -> Sequence[Row]:
    """The rows where they have days of their own, else the whole."""
    return rows if any("date" in row or "committed" in row for row in rows) else [content]


def training(name: str) -> Row:
    runs = bench("trainings")["runs"]
    if name not in runs:
        raise NotRun(name)
    row: Row = runs[name]
    return row


def trained(name: str, key: str, least: float, limit: float, aim: float | None = None) -> Seen:
    """A score, and the minutes that a training and its evaluation may take on two cores."""
    row = training(name)
    score, took = row["metrics"][key], row.get("minutes", 0) + row.get("evaluation_minutes", 0)
    text = f"{key} {score:.3f}" + f", below the {aim} aimed at" * (aim is not None and score < aim)
    text += f"; minutes: {minutes_of(row)}" if took else "; minutes not taken"
    alone = row["threads"] >= 2 and not row.get("beside_other_work")
    if took > limit and not alone:
        text += f", from which nothing follows for {limit} on two cores"
    met, whole = took <= limit or not alone, bool(took) and (took <= limit or alone)
    return Seen(text, score >= least and met, [row], whole)


def demo() -> Seen:
    trivial = training("demo")["metrics"]["majority_mIoU"]
    seen = trained("demo", "mIoU", trivial + 0.25, 4)
    return seen._replace(text=f"{seen.text}; most frequent class everywhere: {trivial:.3f}")


def tiles() -> Seen:
    scores = training("magnetic_tile")["metrics"]
    found = {key[4:]: value for key, value in scores.items() if key.startswith("IoU/")}
    each = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
    seen = trained("magnetic_tile", "mIoU", 0, 20)
    return seen._replace(text=f"IoU {each}; {seen.text}", whole=seen.whole and len(found) == TILES)


def beside(name: str, other: str, words: tuple[str, str], key: str, least: float = 0) -> Seen:
    """A score, and that of the other way, which it is to be above."""
    rows = [training(name), training(f"{name}, {other}")]
    score, low = (row["metrics"][key] for row in rows)
    return Seen(f"{key} {score:.3f} {words[0]}, {low:.3f} {words[1]}", score > low and score >= least, rows)


RESIZED = ("resized", ("by native windows", "on whole images resized"))
TRAININGS: Mapping[str, Callable[[], Seen]] = {
    "demo": demo,
    "magnetic_tile": tiles,
    "hrf_vessels": partial(trained, "hrf_vessels", "Dice/vessel", 0.74, 25, 0.77),
    "dubai_aerial": partial(trained, "dubai_aerial", "mIoU", 0.387, 30, 0.5),
    "bccd_cells": partial(trained, "bccd_cells", "AP50", 0.85, 30, 0.899),
    "deeppcb": partial(trained, "deeppcb", "AP50", 0.6, 30),
    "hrf_vessels branch": partial(beside, "hrf_vessels", "no branch", ("with it", "without"), "Dice/vessel"),
    "demo resized": partial(beside, "demo", *RESIZED, "mIoU"),
    "demo_detection resized": partial(beside, "demo_detection", *RESIZED, "AP50"),
    "aerial_cars resized": partial(beside, "aerial_cars", *RESIZED, "AP50", 0.3),
}
for _part, _function in TRAININGS.items():
    claim("trainings", _part)(_function)


@claim("tilings")
def tilings() -> Seen:
    content = bench("tilings")
    shares = content["share_of_pixels"].values()
    return Seen(f"{span((100 * share for share in shares), '.3f')} % of the pixels", max(shares) < 1e-3, [content])


def loop(name: str) -> Seen:
    content = bench(name)
    return Seen(f"{content['ratio']:.3f}", content["ratio"] <= 1.03, [content])


claim("train_step")(partial(loop, "train_step"))
claim("detection_step")(partial(loop, "detection_step"))


def loaded(kind: str, least: Mapping[str, float]) -> Seen:
    content = bench("loader")
    ratios = {name: content["sets"][name]["ratios"] for name in least}
    each = [
        f"{name} {found[f'{kind}/albumentations']:.2f} (torchvision: {found[f'{kind}/torchvision']:.2f})"
        for name, found in ratios.items()
    ]
    met = all(found[f"{kind}/albumentations"] >= least[name] for name, found in ratios.items())
    return Seen(", ".join(each), met, [content])


claim("loader", "warm")(partial(loaded, "warm", {"hrf": 8, "aerial_cars": 3}))
claim("loader", "cold")(partial(loaded, "cold", {"hrf": 1, "aerial_cars": 1}))


@claim("image_windows")
def image_windows() -> Seen:
    content = bench("image_windows")
    found = content["layouts"].values()
    medians, longest = ([row[key] for row in found] for key in ("median_ms", "largest_ms"))
    growth = [row["growth_bytes"] / 2**20 for row in found]
    text = f"{span(medians, '.1f')} ms (median), longest {max(longest):.1f} ms, growth {span(growth, '.0f')} MiB"
    return Seen(text, max(medians) < 50 and max(growth) < 300, [content])


@claim("saving")
def saving() -> Seen:
    content = bench("saving")
    text = f"{content['share']:.2%}, a save every {content['checkpoint_every']} steps"
    return Seen(text, content["share"] <= 0.02, [content])


@claim("startup")
def startup() -> Seen:
    content = bench("startup")
    found = content["median_seconds"]
    helped, first = found["hires train --help"]["wall"], found["first step"]["without_data"]
    return Seen(f"help {helped:.2f} s, first step {first:.2f} s", helped <= 3 and first <= 6, [content])
