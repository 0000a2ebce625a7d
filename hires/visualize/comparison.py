"""What `hires compare` found: a table for the terminal, and a page. Both take what compare.json holds."""

import math
from typing import Any

from rich.markup import escape
from rich.table import Table

from hires.visualize.curves import curves
from hires.visualize.page import bar_rows, document, heading, html_table, legend, paragraph
from hires.visualize.text import ABSENT, number, seconds, size

KINDS = {"gradient": "gradients", "parameter": "parameters", "buffer": "buffers"}


def table(outcome: dict[str, Any]) -> Table:
    """A row for each setting; differences are the largest to the first."""
    score = _scores(outcome["settings"])[:1]
    head = ("", "allocated", "reserved", "step", "ratio", "loss", *score, "gradients", "weights", "buffers")
    caption = escape(f"gradients, weights, buffers: largest difference to {outcome['reference']}")
    shown = Table(*head, box=None, padding=(0, 1, 0, 0), caption=caption, caption_justify="left")
    for name, found in outcome["settings"].items():
        cells = [*_memory(found), *_time(found), _last_loss(found), *_metrics(found, score)]
        differences = [_difference(found["largest_difference"][kind]) for kind in KINDS]
        shown.add_row(escape(name), *cells, *differences)
    return shown


def page(outcome: dict[str, Any]) -> str:
    """A self-contained HTML page."""
    settings = outcome["settings"]
    common = " ".join(text for text in outcome["overrides"] if not text.lstrip("+").startswith("settings"))
    scores = _scores(settings)
    head = ["setting", "allocated", "reserved", "a step", "ratio", "last loss"]
    differences = [f"{kind} differ by" for kind in KINDS.values()]
    rows = [
        [
            "\n".join([name, *found["overrides"]]),
            *_memory(found),
            *_time(found),
            _last_loss(found),
            *(_named_difference(found["largest_difference"][kind]) for kind in KINDS),
            *_metrics(found, scores),
        ]
        for name, found in settings.items()
    ]
    return document(
        "Comparison of settings",
        [
            paragraph(verdict(outcome), "verdict"),
            html_table([*head, *differences, *scores], rows, range(len(rows)), named=True, keys=True),
            paragraph(f"Steps of each, taken in turns: {outcome['steps']}. Last loss: that of the last one."),
            *(paragraph(text) for text in _notes(outcome)),
            *_bars(settings),
            heading("Loss of each step"),
            curves({name: list(enumerate(f["losses"], 1)) for name, f in settings.items()}, "step", nested=True),
            legend(list(settings)),
            paragraph("Lines that lie on one another get thinner from the first setting to the last."),
            heading("What all have in common"),
            paragraph(common or "The defaults."),
        ],
    )


def verdict(outcome: dict[str, Any]) -> str:
    """Which setting takes the least memory and time, and whether they learn the same."""
    settings, first = outcome["settings"], outcome["reference"]
    said = []
    for key, what, text in (("reserved", "memory reserved", size), ("seconds_per_step", "time a step", seconds)):
        known = {name: found[key] for name, found in settings.items() if found[key]}
        if len(known) > 1:
            least = min(known, key=known.__getitem__)
            ratio = f", {known[least] / known[first]:.2f} of {first}" if first in known and least != first else ""
            said.append(f"Least {what}: {least} ({text(known[least])}{ratio}).")
    return " ".join([*said, *_sameness(settings, first)])


def _sameness(settings: dict[str, Any], first: str) -> list[str]:
    """Whether the other settings end with the parameters of the first."""
    ends = {name: found["largest_difference"]["parameter"] for name, found in settings.items() if name != first}
    if not ends:
        return []
    other = [name for name, found in ends.items() if found is None or found["value"] != 0]
    if not other:
        return [f"All end with the same parameters as {first}, to the bit."]
    return [f"Other parameters than those of {first}: {', '.join(other)}."]


def _bars(settings: dict[str, Any]) -> list[str]:
    peaks = [
        (f"{name}, {kind}", float(found[kind]), 0.0, size(found[kind]))
        for name, found in settings.items()
        for kind in ("allocated", "reserved")
        if found[kind] is not None
    ]
    steps = [
        (name, value, 0.0, seconds(value))
        for name, found in settings.items()
        if (value := found["seconds_per_step"]) is not None
    ]
    parts = [heading("Peak memory of a training"), bar_rows(peaks, 0)] if peaks else []
    return parts + ([heading("Seconds of a step, median"), bar_rows(steps, 1)] if steps else [])


def _notes(outcome: dict[str, Any]) -> list[str]:
    return [
        f"Ratio and differences are to {outcome['reference']}. A step is the median, the first one left out. "
        "Differences are the largest absolute ones: of parameters and buffers after the last step, of gradients "
        f"on one more batch. {ABSENT} for a difference: other names or shapes.",
        "Allocated: most bytes of live tensors at one moment. Reserved: what the process took for them (CPU: "
        "growth of its writable memory since its data was open; CUDA: the caching allocator). Both are measured "
        "in a process of its own, three steps, never while timing.",
    ]


def _scores(settings: dict[str, Any]) -> list[str]:
    """The metrics of all classes together."""
    names = (name for found in settings.values() for name in found["metrics"] or {})
    return [name for name in dict.fromkeys(names) if "/" not in name]


def _metrics(found: dict[str, Any], scores: list[str]) -> list[str]:
    return [number((found["metrics"] or {}).get(score), ".4f") for score in scores]


def _memory(found: dict[str, Any]) -> list[str]:
    return [size(found["allocated"]), size(found["reserved"])]


def _time(found: dict[str, Any]) -> list[str]:
    return [seconds(found["seconds_per_step"]), number(found["ratio"], ".2f")]


def _last_loss(found: dict[str, Any]) -> str:
    return number(found["losses"][-1])


def _difference(found: dict[str, Any] | None) -> str:
    if found is None:
        return ABSENT
    value = found["value"]
    return "inf/nan" if value is None or not math.isfinite(value) else number(value, ".1e") if value else "0"


def _named_difference(found: dict[str, Any] | None) -> str:
    name = found["name"] if found else None
    return "\n".join([_difference(found), *([name] if name else [])])
