"""Figures of what is claimed of memory, for docs/verification.md: policies, predictions, plans that are found."""

import statistics
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

from figures import NotRun, bench, span
from figures_memory import BACKBONES, NETWORKS
from figures_search import AUTOBATCH
from figures_verification import Seen, claim, dated

Row = Mapping[str, Any]


@claim("timm_coverage")
def timm_coverage() -> Seen:
    content = bench("timm_coverage")
    status = [row["status"] for row in content["families"].values()]
    passed, failed = status.count("pass"), status.count("fail")
    share = passed / (passed + failed)
    text = f"{passed} of {passed + failed} families ({share:.1%}); {len(status)} in all"
    return Seen(text, share >= 0.95, dated(content, list(content["families"].values())))


@claim("activation_checkpointing", "peak")
def checkpointing_peak() -> Seen:
    content = bench("activation_checkpointing")
    peaks = {
        name: [found["live_mib"][policy]["peak"] for policy in ("full", "full, backbone", "timm's flag")]
        for name, found in content["backbones"].items()
    }
    each = ", ".join(f"{name} {' / '.join(f'{peak:.0f}' for peak in found)}" for name, found in peaks.items())
    met = all(everything <= alone <= flag for everything, alone, flag in peaks.values())
    return Seen(f"{each} MiB", met and set(peaks) == set(BACKBONES), [content])


@claim("activation_checkpointing_150_classes")
def checkpointing_classes() -> Seen:
    content = bench("activation_checkpointing_150_classes")
    found = content["backbones"]["resnet50"]["live_mib"]
    without, both = (found[policy]["peak"] for policy in ("full, all but the loss", "full"))
    return Seen(f"{without:.0f} MiB without it, {both:.0f} MiB with it", both < without, [content])


def slower(policy: str, most: Mapping[str, float]) -> Seen:
    content = bench("activation_checkpointing")
    ratios = {name: found["time_ratio"][policy] for name, found in content["backbones"].items()}
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return Seen(each, all(round(ratio, 2) <= most[name] for name, ratio in ratios.items()), [content])


for _policy, _most in {"full": (1.40, 1.40, 1.55), "selective": (1.12, 1.12, 1.12)}.items():
    claim("activation_checkpointing", _policy)(partial(slower, _policy, dict(zip(BACKBONES, _most, strict=True))))


@claim("settings_compared")
def settings_compared() -> Seen:
    content = bench("settings_compared")
    found = {name: row["largest_difference"].values() for name, row in content["settings"].items()}
    policies = [name for name in ("selective", "full") if name in found]
    worst = max(value for name in policies for value in found[name])
    return Seen(f"largest difference {worst:g} ({', '.join(policies)})", worst == 0, [content])


def errors(kind: str, precision: str = "") -> list[float]:
    cases = bench("memory_accuracy")["cases"]
    return [abs(case["error"][kind]) for case in cases if precision in ("", case["precision"])]


@claim("memory_accuracy", "live")
def live_error() -> Seen:
    content, found = bench("memory_accuracy"), errors("live")
    median, worst = statistics.median(found), max(found)
    text = f"median {median:.2%}, worst {worst:.2%} of {len(found)} cases"
    return Seen(text, median <= 0.005 and worst <= 0.02, dated(content, content["cases"]), len(found) >= 32)


@claim("memory_accuracy", "allocated")
def allocated_error() -> Seen:
    content, median = bench("memory_accuracy"), statistics.median(errors("allocated"))
    worst = [max(errors("allocated", precision)) for precision in ("32-true", "bf16-mixed")]
    text = f"median {median:.2%}, worst {worst[0]:.2%} in float32, {worst[1]:.2%} in bfloat16"
    met = median <= 0.02 and worst[0] <= 0.05 and worst[1] <= 0.10
    return Seen(text, met, dated(content, content["cases"]))


@claim("published_memory")
def published_memory() -> Seen:
    content = bench("published_memory")
    beyond = [row for row in content["figures"] if abs(row["ratio"]["now"] - 1) > 0.15]
    text = f"{len(content['figures'])} figures, {len(content['figures']) - len(beyond)} within 15 %"
    if beyond:
        text += f"; the others are {span((row['ratio']['now'] for row in beyond), '.2f')} of what was published"
    return Seen(text, len(content["figures"]) >= 10 and all(row.get("reason") for row in beyond), [content])


@claim("prediction_time")
def prediction_time() -> Seen:
    content = bench("prediction_time")
    first = [row["build"] + row["first"] for row in content["cases"].values()]
    further = [row["further"] for row in content["cases"].values()]
    seconds = zip(content["cases"], first, further, strict=True)
    each = "; ".join(f"{name}: {begun:.1f} s, then {after:.1f} s" for name, begun, after in seconds)
    text = f"{each} (of the processor, {_load(content)})"
    return Seen(text, max(first) <= 8 and max(further) <= 2, [content])


@claim("prediction_time", "search")
def search_time() -> Seen:
    content = bench("prediction_time")
    each = "; ".join(
        f"{name}: {found['seconds']:.0f} s, {found['simulations']} simulations"
        for name, found in content["searches"].items()
    )
    slowest = max(found["seconds"] for found in content["searches"].values())
    return Seen(f"{each} (of the processor, {_load(content)})", slowest <= 20, [content])


def _load(content: Mapping[str, Any]) -> str:
    """Of a measurement, at its begin and end."""
    return "load average {:.1f} to {:.1f}".format(*content["load_average"])


@claim("autobatch")
def autobatch() -> Seen:
    content = bench("autobatch")
    rows = content["cases"]
    survived = sum(row["steps"]["survived"] for row in rows)
    used = [row["steps"]["reserved"] / (row["gib"] * 2**30) for row in rows if row["steps"]["reserved"]]
    text = f"{len(rows)} of {len(AUTOBATCH)} cases: {survived} got through 20 steps"
    if used:
        text += f", {span(used, '.1%')} used"
    return Seen(
        text,
        survived == len(rows) and min(used, default=0) >= 0.92,
        dated(content, rows),
        len(rows) == len(AUTOBATCH),
    )


@claim("autobatch", "next")
def autobatch_next() -> Seen:
    content = bench("autobatch")
    after = [(row["next"], row["gib"] * 2**30) for row in content["cases"] if row["next"]]
    above = sum(found["predicted"] > budget for found, budget in after)
    failed = sum(found["failed"] for found, _ in after)
    text = f"of {len(after)}, {above} predicted above the budget, {failed} failed"
    whole = len(content["cases"]) == len(AUTOBATCH)
    return Seen(text, above == failed == len(after), dated(content, content["cases"]), whole)


@claim("autobatch", "probes")
def autobatch_probes() -> Seen:
    content = bench("autobatch")
    counts = [len(row["probes"]) for row in content["cases"]]
    failed = [sum(not probe["fits"] for probe in row["probes"]) for row in content["cases"]]
    text = f"{max(counts)} at most, {max(failed)} of them failed at most, in {len(counts)} cases"
    return Seen(text, max(counts) <= 3 and max(failed) <= 1, dated(content, content["cases"]))


def pixels_of(name: str, way: str, other: str, least: float) -> Seen:
    """How many times the pixels of another way."""
    content = bench(name)
    found = {case: content["cases"][case] for case in NETWORKS if case in content["cases"]}
    pairs = {case: rows for case, rows in found.items() if way in rows and other in rows}
    if not pairs:
        raise NotRun(name)
    ratios = {case: rows[way]["pixels"] / rows[other]["pixels"] for case, rows in pairs.items()}
    text = "; ".join(f"{case}: {ratio:.2f}" for case, ratio in ratios.items())
    rows = [rows[each] for rows in pairs.values() for each in (way, other)]
    return Seen(text, min(ratios.values()) >= least, dated(content, rows), len(pairs) == len(NETWORKS))


PIXELS = {
    "kept": ("planner", "all kept", 3.0),
    "offload": ("planner, offload", "all kept", 4.0),
    "flag": ("planner", "timm's flag", 1.8),
}
"""By part: a way, what it is compared with, and how many times the pixels are asked."""
for _name, _part in product(("pixels", "pixels_cpu"), PIXELS):
    claim(_name, _part)(partial(pixels_of, _name, *PIXELS[_part]))


@claim("planner_time")
def planner_time() -> Seen:
    content = bench("planner_time")
    ratios = {name: row["ratio"] for name, row in content["backbones"].items()}
    text = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    met = min(ratios.values()) <= 0.9 and max(ratios.values()) <= 1
    return Seen(text, met, [content], set(ratios) == set(BACKBONES))


@claim("peers")
def peers() -> Seen:
    content = bench("peers")
    rows = content["budgets"]["1GiB"]
    each = [f"{row['finder']}: {_peer(row)}" for row in rows]
    ours = [row["then"]["survived"] for row in rows if row["finder"].startswith("hires")]
    return Seen("; ".join(each), bool(ours) and all(ours), [content])


def _peer(row: Row) -> str:
    if row["batch"] is None:
        return "none"
    share = f"{row['then']['share']:.0%} used" if row["then"]["survived"] else "does not survive"
    return f"batch {row['batch']}, {row['trials']} trials, {row['out_of_memory']} out of memory, {share}"
