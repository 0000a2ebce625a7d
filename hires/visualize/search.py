"""How a plan was found: a page, and a table for the terminal. Both take what search.json holds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import PurePath
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hires.visualize.page import by_width, document, heading, legend, paragraph, tiles
from hires.visualize.search_chart import Mark, scatter
from hires.visualize.search_tables import as_html, best, number_of, probes, probes_in_short, rungs, tried
from hires.visualize.search_words import (
    answer,
    best_of_each,
    found_by,
    images,
    percent,
    policies_text,
    remarks,
    setting,
    steps_of,
    why,
)
from hires.visualize.text import size

_SHAPES = (0, 1, 2, 3, 4, 5)  # colours of the steps that most was tried of
_OTHERS = 7

Row = Mapping[str, Any]


def page(outcome: dict[str, Any]) -> str:
    """A self-contained HTML page."""
    steps = steps_of(outcome)
    colours = _colours(steps)
    return document(
        "Memory plan of a training",
        [
            paragraph(answer(outcome), "verdict"),
            tiles(list(_facts(outcome, steps))),
            paragraph(setting(outcome)),
            *_commands(outcome),
            heading("Why this plan"),
            *(paragraph(text) for text in why(outcome)),
            heading("Peak against step time"),
            *_chart(outcome, steps, colours),
            heading("What was tried, in order"),
            as_html(tried(steps), [colours[_shape(row)] for row in steps]),
            paragraph(f"{found_by(outcome)} {_explained(steps)}"),
            *_probes_part(outcome, steps),
            *_rungs_part(outcome),
            *_remarks_part(outcome),
        ],
    )


def table(outcome: dict[str, Any]) -> RenderableType:
    """The same without the chart, for a terminal of 80 columns or more: of each size the step that suits best."""
    steps = steps_of(outcome)
    parts: list[RenderableType] = [Text(answer(outcome), style="bold")]
    parts += [Text(f"{name}: {value}, {remark}") for name, value, remark in _facts(outcome, steps)]
    parts += [Text(setting(outcome)), Text(), *map(Text, why(outcome)), Text()]
    parts += [_plain(*best(steps), bold=[row["chosen"] for row in best_of_each(steps)])]
    parts += [Text(found_by(outcome))]
    if outcome["probes"]:
        parts += [Text(), _plain(*probes_in_short(outcome))]
    if outcome["plan"].get("rungs"):
        parts += [Text(), Text("When memory runs out:"), _plain(*rungs(outcome, narrow=True))]
    parts += [Text(), *map(Text, remarks(outcome)), Text(f"The same as overrides: {outcome['override']}")]
    return Group(*parts)


def _facts(outcome: Row, steps: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    """What to see first."""
    peaks, budget = outcome["peak_bytes"], outcome["budget"]
    predicted, measured = peaks["predicted"], peaks["reserved"]
    yield "Predicted peak", size(predicted["reserved"]), f"reserved; {size(predicted['allocated'])} allocated"
    taken, how = predicted["reserved"], "predicted"
    if measured is not None:
        taken, how = measured, "measured"
        ratio = f"predicted / measured {predicted['reserved'] / measured:.2f}" if measured else "nothing"
        yield "Measured peak", size(measured), f"reserved; {size(peaks['allocated'])} allocated; {ratio}"
    free = budget - taken
    left = f"{size(free)} stay free" if free >= 0 else f"{size(-free)} too little"
    yield "Budget", size(budget), f"{left} ({percent(abs(free) / budget)}), as {how}"
    for row in steps:
        if row["chosen"]:
            yield "Computed again", percent(row["cost"]), "of the step's compute (estimated)"


def _commands(outcome: Row) -> list[str]:
    """How to train with the plan."""
    plan = PurePath(outcome["run_dir"], "plan.yaml")
    return [
        f"<p>{escape(text)}<br><code>{escape(code)}</code></p>"
        for text, code in (
            ("Train with it, and what it falls back to:", f"memory.plan={plan}"),
            ("Or say the same in overrides:", outcome["override"]),
        )
    ]


def _shape(row: Row) -> str:
    return images(row)


def _colours(steps: Sequence[Row]) -> dict[str, int]:
    """Of every shape, the chosen one's first and then those with the most steps; the rest have one in common."""
    counts = Counter(_shape(row) for row in steps)
    order = sorted(counts, key=lambda shape: -counts[shape])
    order.sort(key=lambda shape: not any(row["chosen"] and _shape(row) == shape for row in steps))
    alike = len(order) > len(_SHAPES)
    return {
        shape: _OTHERS if alike and place >= len(_SHAPES) - 1 else _SHAPES[place]
        for place, shape in enumerate(order)
    }


def _chart(outcome: Row, steps: Sequence[Row], colours: Mapping[str, int]) -> list[str]:
    marks = [*_simulated(steps, colours), *_run(outcome, steps)]
    narrow = scatter(marks, outcome["budget"])
    named = {shape: colour for shape, colour in colours.items() if colour != _OTHERS}
    if len(named) < len(colours):
        named["other sizes"] = _OTHERS
    kinds = {mark.kind for mark in marks}
    text = (
        "A mark for each step that was simulated, with its number in the table below where there is room. Time is "
        "that of the same micro-batch and image size if nothing were computed again, and what is computed again."
    )
    text += " A ring is around the chosen one." if "chosen" in kinds else ""
    text += " A diamond is what a probe measured." if "measured" in kinds else ""
    text += " A cross is a probe that ran out of memory, where it was predicted." if "failed" in kinds else ""
    return [
        by_width(narrow, scatter(marks, outcome["budget"], width=760, height=360)),
        legend(list(named), list(named.values())),
        paragraph(text),
    ]


def _simulated(steps: Sequence[Row], colours: Mapping[str, int]) -> Iterator[Mark]:
    for row in sorted(steps, key=lambda row: row["chosen"]):
        title = (
            f"{row['number']}: {images(row)}, {policies_text(row['policies'])}; {size(row['reserved'])} reserved, "
            f"{percent(row['cost'])} computed again"
        )
        kind: Literal["chosen", "simulated"] = "chosen" if row["chosen"] else "simulated"
        yield Mark(row["cost"], row["reserved"], str(row["number"]), title, colours[_shape(row)], kind)


def _run(outcome: Row, steps: Sequence[Row]) -> Iterator[Mark]:
    for probe in outcome["probes"]:
        measured, label = probe["measured"], number_of(probe, steps)
        if measured["out_of_memory"]:
            title = f"{label}: out of memory when it was run"
            yield Mark(probe["cost"], probe["reserved"], label, title, kind="failed")
        elif measured["reserved"] is not None:
            title = f"{label}: {size(measured['reserved'])} measured, {size(probe['reserved'])} predicted"
            yield Mark(probe["cost"], measured["reserved"], label, title, kind="measured")


def _explained(steps: Sequence[Row]) -> str:
    copies = " offload computes nothing again; its copies to host memory take time all the same."
    offloads = any("offload" in policies_text(row["policies"]) for row in steps)
    return (
        "A step that was simulated more than once stands here once. Bytes are predicted; fits: into the budget. "
        "Computed again: share of the step's compute, estimated. Units that policies do not name have none."
        + (copies if offloads else "")
    )


def _probes_part(outcome: Row, steps: Sequence[Row]) -> list[str]:
    if not outcome["probes"]:
        return [heading("Probes"), paragraph("No plan was run: all of this is predicted.")]
    text = (
        "Each plan ran for a few steps in a process of its own. Bytes are what was reserved. Ratio: predicted / "
        "measured. A step: all of its micro-batches."
    )
    return [heading("Probes"), as_html(probes(outcome, steps)), paragraph(text)]


def _rungs_part(outcome: Row) -> list[str]:
    title = heading("When memory runs out all the same")
    if not outcome["plan"].get("rungs"):
        text = "There is nothing to fall back to: the micro-batch and the policies are those that need least."
        return [title, paragraph(text)]
    text = (
        "A training goes on with the first of these, and with the next if memory runs out again. Image size and "
        "batch size stay. What they need is not predicted."
    )
    return [title, paragraph(text), as_html(rungs(outcome))]


def _remarks_part(outcome: Row) -> list[str]:
    texts = [paragraph(text) for text in remarks(outcome)]
    return [heading("Notes"), *texts] if texts else []


def _plain(head: list[str], rows: list[list[str]], bold: Sequence[bool] = ()) -> Table:
    shown = Table(box=None, pad_edge=False)
    for name in head:
        shown.add_column(name, justify="left" if name in (head[0], "policies") else "right")
    for index, row in enumerate(rows):
        style = "bold" if index < len(bold) and bold[index] else None
        shown.add_row(*map(Text, row), style=style)
    return shown
