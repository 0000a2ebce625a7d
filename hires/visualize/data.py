"""What a check of a data set found: a page, and a summary for the terminal. Both take what data.json holds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from hires.visualize.page import bar_rows, details, document, heading, html_table, named_values, paragraph, tiles
from hires.visualize.text import ABSENT, number, seconds, short

_NAMES = {"error": ("error", "errors"), "warning": ("warning", "warnings"), "info": ("remark", "remarks")}
_COLOURS = {"error": 5, "warning": 4, "info": 0}
_STYLES = {"error": "bold red", "warning": "yellow", "info": ""}
_PLACES = 12  # of a finding on the page; data.json has all
_IN_TERMINAL = 3
_LONGEST = 160  # letters of a detail
_IDLE = ("nothing to do:", "nothing to do for hires")  # how the advice of remarks begins that the page alone has

Outcome = Mapping[str, Any]


def page(outcome: Outcome) -> str:
    """A self-contained HTML page."""
    return document(
        "Check of a data set",
        [
            paragraph(verdict(outcome), "verdict"),
            paragraph(f"{outcome['root']}, read in {seconds(outcome['seconds'])}"),
            tiles(_facts(outcome)),
            *_found(outcome["findings"]),
            *_proposed(outcome),
            *_classes(outcome),
            heading("Images"),
            html_table(["what", "value"], _images(outcome["images"]), named=True, told=True),
        ],
    )


def summary(outcome: Outcome) -> list[RenderableType]:
    """The same in short, for a terminal."""
    parts: list[RenderableType] = [Text(verdict(outcome), style="bold")]
    idle = [one for one in outcome["findings"] if one["severity"] == "info" and one["advice"].startswith(_IDLE)]
    for one in (one for one in outcome["findings"] if one not in idle):
        parts.append(Text(f"{_NAMES[one['severity']][0]}: {one['text']}", style=_STYLES[one["severity"]]))
        places = one["places"][:_IN_TERMINAL]
        parts += [Text(f"    {_line(place)}", style="dim") for place in places]
        if len(one["places"]) > len(places):
            parts.append(Text(f"    and {len(one['places']) - len(places)} more", style="dim"))
        parts.append(Text(f"  → {one['advice']}"))
    if idle:
        parts.append(Text(f"{_plural(len(idle), *_NAMES['info'])} with nothing to do: only in data.html"))
    if outcome["classes"]:
        head, rows = class_rows(outcome)
        shown = Table(*(Column(Text(name)) for name in head), box=None, pad_edge=False)
        for row in rows:
            shown.add_row(*map(Text, row))
        parts += [Text(), shown]
    parts += [Text(), Text("Proposed:")]
    parts += [Text(f"  {one['key']}={_value(one['value'])}  ({one['reason']})") for one in outcome["proposals"]]
    parts.append(Text(f"  to use it: {outcome['proposed']['command']}"))
    return parts


def verdict(outcome: Outcome) -> str:
    """How many errors, warnings and remarks there are, and what that means."""
    counts = outcome["counts"]
    listed = ", ".join(_plural(counts[kind], *_NAMES[kind]) for kind in _NAMES)
    if counts["error"]:
        return f"{listed}: training would stop, or learn something wrong"
    return f"{listed}: nothing that stops training"


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _facts(outcome: Outcome) -> list[tuple[str, str, str]]:
    images, unit = outcome["images"], outcome["unit"]
    total = sum(_total(one, outcome["splits"]) for one in outcome["classes"])
    largest = images["sizes"]["largest"]
    broken = images["count"] - images["read"]
    return [
        ("images", f"{images['count']:,}", f"{broken:,} cannot be read" if broken else "all can be read"),
        ("splits", ", ".join(f"{name} {count:,}" for name, count in outcome["splits"].items()), "images"),
        ("largest image", _size(largest), f"{images['pixels'] / 1e6:,.1f} Mpx in all"),
        ("classes", f"{len(outcome['classes'])}", f"{total:,} {unit}"),
    ]


def _total(one: Outcome, splits: Outcome) -> int:
    """Of a class over all splits; a test split that is the validation split counts once."""
    counts = dict(one["counts"])
    if counts.get("test") == counts.get("val") and splits.get("test") == splits.get("val"):
        counts.pop("test", None)
    return sum(counts.values())


def _size(size: Sequence[int] | None) -> str:
    return f"{size[0]} x {size[1]}" if size else ABSENT


def _found(findings: Sequence[Outcome]) -> Iterator[str]:
    for severity, (_, many) in _NAMES.items():
        mine = [one for one in findings if one["severity"] == severity]
        if not mine:
            continue
        yield heading(f"{many.capitalize()} ({len(mine)})")
        for one in mine:
            parts = [paragraph(one["advice"]), *_places(one)]
            yield details(one["text"], _COLOURS[severity], parts, is_open=severity == "error")


def _places(one: Outcome) -> Iterator[str]:
    places = one["places"]
    if not places:
        return
    told = any(place["detail"] for place in places)
    rows = [[place["file"], short(place["detail"], _LONGEST)][: 1 + told] for place in places[:_PLACES]]
    yield html_table(["where", "what"][: 1 + told], rows, named=told)
    if len(places) > _PLACES:
        yield paragraph(f"and {len(places) - _PLACES:,} more, which data.json lists")


def _line(place: Outcome) -> str:
    return f"{place['file']}: {short(place['detail'], _LONGEST)}" if place["detail"] else str(place["file"])


def _proposed(outcome: Outcome) -> list[str]:
    rows = [(f"{one['key']}: {_value(one['value'])}", one["reason"]) for one in outcome["proposals"]]
    if not rows:
        return []
    return [
        heading("Proposed settings"),
        named_values(rows),
        paragraph(f"They are in {outcome['proposed']['file']}, with what this check was asked for. To use them:"),
        named_values([(outcome["proposed"]["command"], "")]),
    ]


def _value(value: Any) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _classes(outcome: Outcome) -> list[str]:
    if not outcome["classes"]:
        return []
    head, rows = class_rows(outcome)
    counts = [(one["name"], float(_total(one, outcome["splits"]))) for one in outcome["classes"]]
    bars = [(name, count, 0.0, f"{count:,.0f}") for name, count in counts]
    return [
        heading(f"Classes: {outcome['unit']}"),
        html_table(head, rows, named=True),
        paragraph(_explained(outcome)),
        bar_rows(bars, 0),
    ]


def class_rows(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """A table of the classes: counts by split, and sizes."""
    splits, is_boxes = list(outcome["splits"]), outcome["unit"] == "objects"
    small = "4" if is_boxes else "3"
    resized = f"under 3 px resized to {_side(outcome['image_size'])}"
    sizes = ["size 5 %", "50 %", "95 %"] if is_boxes else []
    head = ["class", *splits, *sizes, f"under {small} px", *([resized] if outcome["image_size"] else [])]
    rows = []
    for one in outcome["classes"]:
        row = [one["name"], *(f"{one['counts'].get(split, 0):,}" for split in splits)]
        if is_boxes:
            row += [number(one["sizes"].get(key), ".0f") for key in ("5%", "50%", "95%")]
        row.append(_percent(one["below"].get(small)))
        if outcome["image_size"]:
            row.append(_percent(one["below_resized"]))
        rows.append(row)
    return head, rows


def _explained(outcome: Outcome) -> str:
    if outcome["unit"] == "objects":
        return (
            "Size: square root of a box's area, pixels, of 5, 50 and 95 % of the objects. Under so many pixels: "
            "share of the objects whose shorter side is."
        )
    return (
        "Under so many pixels: share of a class's pixels in structures that are narrower, at native resolution "
        "and where the whole image is resized; estimated by openings."
    )


def _side(size: Sequence[int] | None) -> str:
    if not size:
        return ABSENT
    return str(size[0]) if size[0] == size[1] else f"{size[0]}x{size[1]}"


def _percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share:.1f} %"


def _images(images: Outcome) -> list[list[str]]:
    sizes = images["sizes"]
    low, high = images["range"]
    return [
        ["formats", _counts(images["formats"])],
        ["pixel types", _counts(images["types"])],
        ["bands", _counts(images["bands"])],
        ["smallest", _size(sizes["smallest"])],
        ["median", _size(sizes["median"])],
        ["largest", _size(sizes["largest"])],
        ["different sizes", f"{sizes['distinct']:,}"],
        ["pixel values", f"{number(low)} to {number(high)}"],
        ["mean of each band", _numbers(images["mean"])],
        ["deviation of each band", _numbers(images["deviation"])],
    ]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count:,})" for name, count in counts.items()) or ABSENT


def _numbers(values: Sequence[float] | None) -> str:
    return ABSENT if values is None else ", ".join(f"{value:.1f}" for value in values)
