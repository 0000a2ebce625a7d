"""Figures of searches for plans: what fits, beside others' finders, and at which step time."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from figures import NOT_RUN, bench, block, made, table
from figures_memory import BACKBONES

PEERS = {"hires, auto": "hires, `auto` policies"}
TRAININGS = {("unet", "resnet18"): "U-Net, resnet18", ("fpn", "convnext_atto"): "FPN, convnext_atto"}
TRAININGS |= {("fcos", "resnet18"): "FCOS, resnet18"}
AUTOBATCH = list(product((1, 2, 4), TRAININGS, ("batch", "resolution")))


@block
def autobatch() -> str:
    """A row for each case of the bench, those that were not run too."""
    content = bench("autobatch")
    found = {(row["gib"], row["model"], row["backbone"], row["goal"]): row for row in content["cases"]}
    rows = [
        [f"{gib} GiB", TRAININGS[training], goal, *_plan(found.get((gib, *training, goal)))]
        for gib, training, goal in AUTOBATCH
    ]
    head = ["within", "training", "largest", "micro-batch", "used in 20 steps", "out of memory", "the next larger"]
    return table([*head, "search"], rows, made(content, content["cases"]))


def _plan(row: Mapping[str, Any] | None) -> list[str]:
    if row is None:
        return [NOT_RUN, *[""] * 4]
    steps, after = row["steps"], row["next"]
    used = f"{steps['reserved'] / (row['gib'] * 2**30):.1%}" if steps["reserved"] else ""
    shape = f"{row['micro_batch_size']} x {' x '.join(map(str, row['image_size']))}"
    return [shape, used, "no" if steps["survived"] else "**yes**", _after(after), f"{row['search_seconds']:.0f} s"]


def _after(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "none"
    shape = " x ".join(str(found["shape"][side]) for side in ("micro_batch", "height", "width"))
    fate = "fails" if found["failed"] else "**gets through**"
    return f"{shape}: predicted {found['predicted'] / 2**30:.2f} GiB, {fate}"


@block
def autobatch_counts() -> str:
    """How many cases were run, survived, and could not have been larger."""
    cases = bench("autobatch")["cases"]
    survived = sum(row["steps"]["survived"] for row in cases)
    after = [row["next"]["failed"] for row in cases if row["next"]]
    return (
        f"{len(cases)} of {len(AUTOBATCH)} cases were run: {survived} trained within the limit, and the next "
        f"larger shape failed in {sum(after)} of {len(after)}"
    )


@block
def autobatch_unused() -> str:
    """The largest share of a budget that was not used."""
    cases = bench("autobatch")["cases"]
    used = [row["steps"]["reserved"] / (row["gib"] * 2**30) for row in cases if row["steps"]["reserved"]]
    return f"{1 - min(used):.1%}" if used else NOT_RUN


@block
def planner_time() -> str:
    content = bench("planner_time")

    def row(name: str, found: Mapping[str, Any] | None) -> list[str]:
        if found is None:
            return [name, NOT_RUN, *[""] * 3]
        peaks, seconds = found["reserved"], found["seconds"]
        ratios = (f"{seconds['planner'] / seconds[other]:.2f}" for other in ("timm's flag", "all kept"))
        return [name, *(f"{peaks[way] / 2**20:.0f} MiB" for way in ("timm's flag", "planner")), *ratios]

    rows = (row(name, content["backbones"].get(name)) for name in BACKBONES)
    head = [
        "",
        "reserved with timm's flag",
        "with the planner's",
        "step time, of the flag's",
        "of everything kept",
    ]
    return table(head, rows, made(content))


@block
def peers() -> str:
    content = bench("peers")
    head = [
        "finder",
        "batch",
        "trials",
        "out of memory",
        "seconds",
        "predicting",
        "used",
        "20 steps",
        "seconds an image",
    ]
    return table(
        head,
        map(_peer, content["budgets"]["1GiB"]),
        made({"torch": content["versions"]["ours"]["torch"], **content}),
    )


def _peer(row: Mapping[str, Any]) -> list[str]:
    name = PEERS.get(row["finder"], row["finder"])
    if row["batch"] is None:
        return [name, "none", *[""] * 7]
    then = row["then"]
    predicting = f"{row['seconds']['search']:.0f}" if "simulated" in row else ""
    numbers = [str(row[key]) for key in ("batch", "trials", "out_of_memory")]
    outcome = [
        f"{then['share']:.0%}",
        "yes" if then["survived"] else "no",
        f"{then['processor_seconds_per_image']:.2f}",
    ]
    return [name, *numbers, f"{row['seconds']['processor']:.0f}", predicting, *outcome]
