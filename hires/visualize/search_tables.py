"""Tables of a search for a plan, as texts: a head and rows."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from hires.visualize.page import html_table
from hires.visualize.search_words import (
    best_of_each,
    images,
    percent,
    plural,
    policies_text,
    same,
    shortened,
)
from hires.visualize.text import number, seconds, short, size

_CHOSEN = "→ chosen"
_SPACE = "\N{NO-BREAK SPACE}"
_LINE = 36  # letters of policies in a line of a page: as many as fit into the width of what is smaller
_LETTERS = 26  # of policies in a terminal

Row = Mapping[str, Any]
Policies = str | Mapping[str, str]
Table = tuple[list[str], list[list[str]]]


def as_html(table: Table, colours: Sequence[int] = ()) -> str:
    """A table of a page whose lines stay as they are on a phone, where it scrolls under its first column."""
    whole = 'style="white-space:nowrap"'
    text = html_table(*table, colours, named=True, told=table[0][-1] == "policies")
    text = text.replace("<tr><td>", f"<tr><td {whole}>").replace("<small>", f"<small {whole}>")
    strong = whole.removesuffix('"') + ';font-weight:600;color:var(--text)"'
    return text.replace(f"<small {whole}>{_CHOSEN}<", f"<small {strong}>{_CHOSEN}<")


def tried(steps: Sequence[Row]) -> Table:
    """All that was simulated, in order."""
    head = ["step", "reserved", "allocated", "computed again", "fits", "policies"]
    rows = [
        [
            _name(row, str(row["number"]), chosen=row["chosen"]),
            size(row["reserved"]),
            size(row["allocated"]),
            percent(row["cost"]),
            "yes" if row["fits"] else "no",
            _policies(row["policies"]),
        ]
        for row in steps
    ]
    return head, rows


def best(steps: Sequence[dict[str, Any]]) -> Table:
    """Of every shape what suits best, for 80 columns."""
    rows = [
        [
            images(row),
            size(row["reserved"]),
            percent(row["cost"]),
            "chosen" if row["chosen"] else "yes" if row["fits"] else "no",
            _policies_in_short(row["policies"]),
        ]
        for row in best_of_each(steps)
    ]
    return ["step", "reserved", "again", "fits", "policies"], rows


def probes(outcome: Row, steps: Sequence[Row]) -> Table:
    """What was run, with the numbers of the steps that were simulated."""
    rows = []
    for probe in outcome["probes"]:
        measured, label = probe["measured"], number_of(probe, steps)
        found = measured["reserved"]
        rows.append(
            [
                _name(probe, label),
                size(probe["reserved"]),
                size(found),
                number(probe["reserved"] / found if found else None, ".2f"),
                seconds(measured["seconds"]),
                _lack(measured),
                "yes" if probe["fits"] else "no",
            ]
        )
    return ["probe", "predicted", "measured", "ratio", "a step", "out of memory", "fits"], rows


def probes_in_short(outcome: Row) -> Table:
    """The same for 80 columns."""
    (_, *head, _, fits), rows = probes(outcome, ())
    short_rows = [
        [images(probe), *row[1:-2], "out of memory" if probe["measured"]["out_of_memory"] else row[-1]]
        for probe, row in zip(outcome["probes"], rows, strict=True)
    ]
    return ["probe", *head, fits], short_rows


def number_of(probe: Row, steps: Sequence[Row]) -> str:
    """The number of the step that was run; empty for one that is not known."""
    return next((str(row["number"]) for row in steps if same(row, probe)), "")


def rungs(outcome: Row, *, narrow: bool = False) -> Table:
    """What to fall back to, in order; `narrow` for 80 columns."""
    write = _policies_in_short if narrow else _policies
    rows: list[list[str]] = []
    before: Policies | None = None
    for place, rung in enumerate(outcome["plan"]["rungs"], 1):
        policies = shortened(rung["policies"])
        steps = plural(rung["accumulation_steps"], "micro-batch", "es")
        name = f"{place}. {images(rung)}" if narrow else _name(rung, str(place))
        rows.append([name, steps, "the same" if policies == before else write(policies)])
        before = policies
    return ["fall back to", "a step", "policies"], rows


def _name(row: Row, label: str, *, chosen: bool = False) -> str:
    """What a step is, in lines."""
    height, width = row["image_size"]
    first = f"{label}. " if label else ""
    lines = [f"{first}{plural(row['micro_batch_size'], 'image')}", f"{height} x {width}"]
    return "\n".join([*lines, _CHOSEN] if chosen else lines)


def _lack(measured: Row) -> str:
    """Whether memory ran out; below it, how often CUDA's allocator had to try again, which makes steps slow."""
    retries = measured.get("retries") or 0
    again = f"\n{retries} {'retry' if retries == 1 else 'retries'}" if retries else ""
    return ("yes" if measured["out_of_memory"] else "no") + again


def _policies(policies: Policies) -> str:
    if isinstance(policies, str):
        return policies
    # a unit and its policy stay in one line
    lines = wrap(policies_text(policies).replace(": ", f":{_SPACE}"), _LINE)
    return "\n".join(["mixed", *lines]).replace(_SPACE, " ")


def _policies_in_short(policies: Policies) -> str:
    return short(policies_text(policies), _LETTERS)
