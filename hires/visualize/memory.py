"""What one training step occupies: a page, and a table for the terminal. Both take what memory.json holds."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hires.visualize.memory_chart import Place, areas
from hires.visualize.memory_units import units_part, units_table
from hires.visualize.page import by_width, document, heading, html_table, legend, paragraph, tiles
from hires.visualize.svg import COLOURS
from hires.visualize.text import ABSENT, number, size

# Colours of the page by place in the stack: neighbours differ, also for eyes that do not tell red from green and
# where a layer between them is thin or absent (activations and temporaries, say).
_STACK = (1, 3, 7, 2, 8, 0, 10, 5, 4, 9, 6)
_ACTIVATIONS = _STACK[5]
_BAR = 24  # letters of a terminal


def page(outcome: dict[str, Any]) -> str:
    """A self-contained HTML page."""
    colours = _colours(outcome)
    return document(
        "Memory of a training step",
        [
            paragraph(outcome["verdict"], "verdict"),
            tiles(_facts(outcome)),
            paragraph(_setting(outcome)),
            *(paragraph(text) for text in outcome["notes"]),
            heading("Memory over the step, in order of execution"),
            _chart(outcome, colours),
            legend(shown := _in_chart(outcome), [colours[name] for name in shown]),
            heading("What it is made of at the peak"),
            html_table(["category", "bytes", "share"], _shares(outcome), list(colours.values())),
            heading("Predicted and measured" if _is_measured(outcome) else "Predicted"),
            html_table(*_peaks(outcome), named=True),
            paragraph(_explained(outcome)),
            *_fitting(outcome),
            heading("Under one policy for all units"),
            html_table(*_alternatives(outcome)),
            *units_part(outcome["units"], _ACTIVATIONS),
            *_overrides(outcome),
        ],
    )


def table(outcome: dict[str, Any]) -> RenderableType:
    """The same without the time axis, for a terminal of 80 columns or more."""
    peaks, rows = _peaks(outcome)
    return Group(
        Text(outcome["verdict"], style="bold"),
        Text(f"Peak: {_place(outcome)}. {_setting(outcome)}"),
        *(Text(note) for note in outcome["notes"]),
        Text(),
        _plain(peaks, rows),
        Text(),
        _plain(["at the peak", "bytes", "share", ""], _shares_with_bars(outcome)),
        Text(),
        _plain(*_alternatives(outcome)),
        *([Text(), Text(_fit(outcome["fitting"]))] if outcome["fitting"] else []),
        Text(),
        units_table(outcome["units"]),
    )


def _plain(head: list[str], rows: list[list[str]]) -> Table:
    shown = Table(box=None, pad_edge=False)
    for index, name in enumerate(head):
        shown.add_column(name, justify="right" if index and name else "left")
    for row in rows:
        shown.add_row(*map(Text, row))
    return shown


def _colours(outcome: dict[str, Any]) -> dict[str, int]:
    return {name: _STACK[index % COLOURS] for index, name in enumerate(outcome["categories"])}


def _place(outcome: dict[str, Any]) -> str:
    return str(Place(0, **outcome["peak_at"]))


def _facts(outcome: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What to see first."""
    peaks, categories = outcome["peak_bytes"], outcome["categories"]
    predicted, largest = peaks["predicted"], max(categories, key=categories.__getitem__)
    share = _percent(categories[largest], sum(categories.values()))
    facts = [("Predicted peak", *_peak_fact(predicted))]
    if _is_measured(outcome):
        value, remark = _peak_fact(peaks)
        ratio = next((row[3] for row in _peak_rows(outcome) if row[3] != ABSENT), ABSENT)
        facts.append(("Measured peak", value, f"{remark}; predicted / measured {ratio}"))
    return [*facts, ("It comes in the", _place(outcome), f"{share} of it {largest}")]


def _peak_fact(peaks: dict[str, Any]) -> tuple[str, str]:
    allocated, reserved = peaks["allocated"], peaks["reserved"]
    if allocated is None:
        return size(reserved), "reserved"
    return size(allocated), "allocated" + (f"; {size(reserved)} reserved" if reserved is not None else "")


def _is_measured(outcome: dict[str, Any]) -> bool:
    return any(outcome["peak_bytes"][kind] is not None for kind in ("allocated", "reserved"))


def _setting(outcome: dict[str, Any]) -> str:
    """How the step is carried out, in words."""
    plan = outcome["plan"]
    micro, steps = plan["micro_batch_size"], plan["accumulation_steps"]
    height, width = plan["image_size"]
    policies = Counter(unit["policy"] for unit in outcome["units"].values())
    counts = ", ".join(f"{policy} ({_plural(count, 'unit')})" for policy, count in policies.items())
    return (
        f"A step: {_plural(steps, 'micro-batch', 'es')} of {_plural(micro, 'image')}, {height} x {width} "
        f"(height x width), {outcome['precision']} on {outcome['device']}. Policies: {counts}."
    )


def _overrides(outcome: dict[str, Any]) -> list[str]:
    given = " ".join(outcome["overrides"])
    return [heading("Overrides"), paragraph(given)] if given else []


def _in_chart(outcome: dict[str, Any]) -> list[str]:
    """The categories that have bytes at some time of the step."""
    samples = outcome["timeline"]["bytes"]
    return [name for name in outcome["categories"] if any(samples.get(name, ()))]


def _plural(count: int, what: str, ending: str = "s") -> str:
    return f"{count} {what}{ending if count != 1 else ''}"


def _chart(outcome: dict[str, Any], colours: dict[str, int]) -> str:
    layers = {name: values for name in colours if (values := outcome["timeline"]["bytes"].get(name)) is not None}
    places = [Place(**place) for place in outcome["timeline"]["places"]]
    most = max(map(sum, zip(*layers.values(), strict=True)), default=0)
    peak = f"peak {size(most)}, {_place(outcome)}"
    shown = [colours[name] for name in layers]
    narrow = areas(layers, places, shown, peak=peak)
    return by_width(narrow, areas(layers, places, shown, peak=peak, width=760, height=330))


def _shares(outcome: dict[str, Any]) -> list[list[str]]:
    counts = _counts(outcome)
    total = sum(counts.values())
    return [[name, size(count), _percent(count, total)] for name, count in [*counts.items(), ("together", total)]]


def _counts(outcome: dict[str, Any]) -> dict[str, int]:
    """Bytes by category; those that the allocator adds to them last."""
    counts = dict(outcome["categories"])
    rest = (outcome["peak_bytes"]["predicted"]["allocated"] or 0) - sum(counts.values())
    return {**counts, "rounding and rest": rest} if rest > 0 else counts


def _shares_with_bars(outcome: dict[str, Any]) -> list[list[str]]:
    counts = list(_counts(outcome).values())
    total = sum(counts) or 1
    bars = ["█" * round(_BAR * count / total) for count in counts]
    return [[*row, bar] for row, bar in zip(_shares(outcome), [*bars, ""], strict=True)]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ABSENT


def _peaks(outcome: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """A table of peaks; without the columns of what was not measured."""
    rows = list(_peak_rows(outcome))
    if not _is_measured(outcome):
        return ["peak", "predicted"], [row[:2] for row in rows]
    return ["peak", "predicted", "measured", "ratio"], rows


def _peak_rows(outcome: dict[str, Any]) -> Iterator[list[str]]:
    peaks, parts = outcome["peak_bytes"], outcome["reserved_parts"]
    for kind in ("allocated", "reserved"):
        guess, found = peaks["predicted"][kind], peaks[kind]
        ratio = guess / found if guess is not None and found else None
        yield [kind, size(guess), size(found), number(ratio, ".2f")]
    for name, count in parts.items():
        if count is not None:
            yield [f"reserved: {name}", size(count), ABSENT, ABSENT]
    live, measured = outcome["live"], outcome["live_measured"]
    yield ["live tensors", size(live), size(measured), number(live / measured if measured else None, ".2f")]


def _alternatives(outcome: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """What the peak would be, and how much of the step would run again."""
    now = outcome["peak_bytes"]["predicted"]["allocated"]
    rows = [
        [name, size(found["allocated"]), _percent(found["allocated"], now), f"+{100 * found['cost']:.0f} %"]
        for name, found in outcome["alternatives"].items()
    ]
    return ["policy", "allocated", "of the peak", "computed again"], rows


def _fitting(outcome: dict[str, Any]) -> list[str]:
    return [heading("Within the budget"), paragraph(_fit(outcome["fitting"]))] if outcome["fitting"] else []


def _fit(found: dict[str, Any]) -> str:
    """The cheapest policies within a budget, in words."""
    again = f"{100 * found['cost']:.0f} % of the step"
    takes = f"reserves {size(found['reserved'])} and computes {again} again (estimated)"
    if found["fits"]:
        return f"Within {size(found['budget'])}, the cheapest is {found['override']}: it {takes}."
    return f"No policies fit into {size(found['budget'])}. The nearest, {found['override']}, {takes}."


def _explained(outcome: dict[str, Any]) -> str:
    measured = _is_measured(outcome)
    hint = "Ratio: predicted / measured." if measured else "Nothing was run; memory.measure=true measures it too."
    return (
        "Allocated: most bytes that the allocator handed out at one moment, with kernel workspace and rounding. "
        "Reserved: what the process takes for them. Live tensors: without workspace and rounding. " + hint
    )
