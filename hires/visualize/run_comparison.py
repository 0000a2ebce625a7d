"""Finished runs side by side: a table for the terminal, and a page. Both take what compare.json holds."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from hires.visualize.curves import curves
from hires.visualize.page import bar_rows, document, heading, html_table, legend, paragraph
from hires.visualize.report_scores import by_class
from hires.visualize.text import ABSENT, number, seconds, size

_CHARTS = 6  # metrics that are drawn
_KINDS = 4  # metrics of classes that are listed
Runs = Mapping[str, Mapping[str, Any]]


def table(outcome: Mapping[str, Any]) -> Table:
    """A row for each run."""
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column("run", overflow="fold")
    for name in ("metric", "best", "at step", "of", "a step", "reserved"):
        shown.add_column(name, justify="right", no_wrap=True)
    for name, run in outcome["runs"].items():
        shown.add_row(Text(name), *map(Text, _row(run)))
    return shown


def _row(run: Mapping[str, Any]) -> list[str]:
    best = run["best"]
    at = ABSENT if best["value"] is None else str(best["step"])
    return [
        best["metric"] or ABSENT,
        number(best["value"]),
        at,
        str(run["steps"]),
        seconds(run["seconds_per_step"]),
        size(run["peak_bytes"]["reserved"]),
    ]


def page(outcome: Mapping[str, Any]) -> str:
    """A self-contained HTML page."""
    found: Runs = outcome["runs"]
    head = ["run", "metric", "best", "at step", "steps", "a step", "reserved"]
    return document(
        "Comparison of runs",
        [
            paragraph(verdict(found), "verdict"),
            html_table(head, [[name, *_row(run)] for name, run in found.items()], range(len(found)), named=True),
            *_not_ended(found),
            *_differences(outcome["differences"], list(found)),
            heading("Curves"),
            *_curves(found),
            *_metrics(found),
            *_bars(found),
        ],
    )


def verdict(found: Runs) -> str:
    """Which run is best, if they are judged by one metric."""
    kinds = {run["best"]["metric"] for run in found.values()}
    known = {name: run["best"]["value"] for name, run in found.items() if run["best"]["value"] is not None}
    if len(kinds) > 1 or len(known) < 2:
        return "The runs have no best value of one metric to be judged by."
    first, second = sorted(known, key=lambda name: -known[name])[:2]
    metric = next(iter(kinds))
    if known[first] == known[second]:
        return f"Equally good by {metric}: {number(known[first])}."
    return f"{first} is best: {metric} {number(known[first])}, before {second} with {number(known[second])}."


def _not_ended(found: Runs) -> list[str]:
    names = [name for name, run in found.items() if not run["finished"]]
    return [paragraph(f"Not ended: {', '.join(names)}.")] if names else []


def _differences(different: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> list[str]:
    parts = [heading("What they were made with")]
    if not different:
        return [*parts, paragraph("The same settings.")]
    rows = [[key, *(values[name] for name in names)] for key, values in different.items()]
    return [*parts, html_table(["key", *names], rows, named=True, keys=True)]


def _curves(found: Runs) -> list[str]:
    """A chart for the loss, the learning rate and each metric, with a line for each run that has it."""
    judged = [run["best"]["metric"] for run in found.values() if run["best"]["metric"]]
    known = [name for run in found.values() for name in run["curves"]]
    parts_of_loss = [name for name in known if name.startswith("loss/")]
    metrics = [name for name in dict.fromkeys([*judged, *known]) if name not in ("loss", "lr", *parts_of_loss)]
    parts = []
    for name, title in [("loss", "Loss"), *((m, m) for m in metrics[:_CHARTS]), ("lr", "Learning rate")]:
        having = {run: index for index, run in enumerate(found) if name in found[run]["curves"]}
        if having:
            series = {run: [(x, y) for x, y in found[run]["curves"][name]] for run in having}
            parts += [heading_of_chart(title), curves(series, "step", list(having.values()))]
            parts.append(legend(list(having), list(having.values())))
    return parts


def heading_of_chart(text: str) -> str:
    return heading(text).replace("h2>", "h3>")


def _metrics(found: Runs) -> list[str]:
    """At the best step of each run."""
    apart = {name: by_class(run["metrics"]) for name, run in found.items()}
    overall = list(dict.fromkeys(metric for scores, _ in apart.values() for metric in scores))
    if not overall:
        return []
    rows = [[metric, *(number(apart[name][0].get(metric)) for name in found)] for metric in overall]
    parts = [heading("Metrics of the best evaluations"), html_table(["metric", *found], rows, named=True)]
    kinds = dict.fromkeys(kind for _, classes in apart.values() for row in classes.values() for kind in row)
    for kind in list(kinds)[:_KINDS]:
        labels = dict.fromkeys(label for _, classes in apart.values() for label in classes)
        rows = [
            [label, *(number(apart[name][1].get(label, {}).get(kind), ".4f") for name in found)]
            for label in labels
        ]
        parts += [heading_of_chart(f"{kind} of each class"), html_table(["class", *found], rows, named=True)]
    return parts


def _bars(found: Runs) -> list[str]:
    peaks = [
        (f"{name}, {kind}", count, 0.0, size(count))
        for name, run in found.items()
        for kind in ("allocated", "reserved")
        if (count := run["peak_bytes"][kind])
    ]
    steps = [
        (name, value, 0.0, f"{seconds(value)}, {number(run['images_per_second'], '.3g')} images/s")
        for name, run in found.items()
        if (value := run["seconds_per_step"])
    ]
    parts = [heading("Peak memory"), bar_rows(peaks, 0)] if peaks else []
    return parts + ([heading("Seconds of a step"), bar_rows(steps, 1)] if steps else [])
