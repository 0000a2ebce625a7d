"""Steps as marks: bytes that they reserve against how much longer they take for what they compute again."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

from hires.visualize.svg import COLOURS, drawing, ticks
from hires.visualize.text import size

_LETTER = 8  # units that a digit or a bold letter takes at most, on average: fonts differ
_RADIUS, _RING, _GAP = 4.5, 9.0, 3.0
_PAD = 14  # from the sides of the frame to the first and last place
_AXIS = "estimated step time; 100 % computes nothing again"


@dataclass(frozen=True)
class Mark:
    """A step that was simulated or run."""

    cost: float  # share of its compute that is done again
    reserved: int  # bytes
    label: str  # stands beside it where there is room; may be empty
    title: str  # what it is, in full
    colour: int = 0  # of a simulated one
    kind: Literal["simulated", "chosen", "measured", "failed"] = "simulated"


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "_Box") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


@dataclass(frozen=True)
class _Frame:
    """From shares and bytes to units of the drawing."""

    box: _Box
    percents: tuple[float, float]  # the least and the most, of x
    counts: tuple[float, float]  # bytes, of y

    def x(self, percent: float) -> float:
        low, high = self.percents
        return self.box.left + _PAD + (self.box.right - self.box.left - 2 * _PAD) * (percent - low) / (high - low)

    def y(self, count: float) -> float:
        low, high = self.counts
        return self.box.bottom - _PAD - (self.box.bottom - self.box.top - 2 * _PAD) * (count - low) / (high - low)

    def place(self, mark: Mark) -> tuple[float, float]:
        return self.x(100 * (1 + mark.cost)), self.y(mark.reserved)


def scatter(marks: Sequence[Mark], budget: int, *, width: int = 360, height: int = 320) -> str:
    """A mark for each step, and a line for the budget, bytes. What is drawn later lies above.

    Labels stand where they cover no mark and no other label; where there is no room they are left out.
    """
    if not marks:
        return drawing(20, ['<text x="0" y="14">nothing to show</text>'], "empty chart", width=width)
    most = max(budget, *(mark.reserved for mark in marks))
    unit, name = (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")
    low = min(budget, *(mark.reserved for mark in marks))
    if most - low < 0.1 * most:  # one step, say: a difference of a few bytes is to look like that
        low = round(0.9 * low)
    counts = {unit * value: f"{value:g} {name}" for value in _rounds(low / unit, most / unit)}
    left = 10 + max(_LETTER * len("budget"), *(7 * len(text) for text in counts.values()))
    slowest = max(110, *(100 * (1 + mark.cost) for mark in marks))
    frame = _Frame(_Box(left, 26, width - 4, height - 40), (100, slowest), (low, most))
    parts = [
        *_axes(frame, counts, budget),
        *_links(frame, marks),
        *(_drawn(frame, mark) for mark in marks),
        *_labels(frame, marks, budget),
    ]
    return drawing(
        height, parts, "bytes reserved against the time of a step, for each that was tried", width=width
    )


def _axes(frame: _Frame, counts: Mapping[float, str], budget: int) -> Iterator[str]:
    left, top, right, bottom = frame.box
    yield _text(0, 14, f"reserved at the peak; budget {size(budget)}", "faint", "start")
    for count, text in counts.items():
        y = frame.y(count)
        yield _line(left, right, y, y, "grid")
        if abs(y - frame.y(budget)) > 13:  # the budget's name stands in the same column
            yield _text(left - 6, y + 4, text, anchor="end")
    for percent in _rounds(*frame.percents):
        x = frame.x(percent)
        yield _line(x, x, top, bottom, "grid")
        if x < right - 20:
            yield _text(x, bottom + 16, f"{percent:g} %")
    yield _text(right / 2, bottom + 34, _AXIS, "faint")
    y = frame.y(budget)
    yield _line(left, right, y, y, "mark")
    yield _text(left - 6, y + 4, "budget", "label", "end")


def _rounds(low: float, high: float) -> list[float]:
    """Three to seven round numbers from the least to the most."""
    _, step, *_ = ticks(0, 0.6 * (high - low))
    return [step * index for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _links(frame: _Frame, marks: Sequence[Mark]) -> Iterator[str]:
    """From what was measured to what was predicted of the same step, which has the same label."""
    for mark in marks:
        if mark.kind == "measured":
            x, y = frame.place(mark)
            for other in marks:
                if other.label == mark.label and other.kind in ("simulated", "chosen"):
                    yield _line(x, x, y, frame.place(other)[1], "mark")


def _drawn(frame: _Frame, mark: Mark) -> str:
    x, y = frame.place(mark)
    title = f"<title>{escape(mark.title)}</title>"
    outline = 'fill="none" style="stroke:var(--text);stroke-width:2"'
    if mark.kind == "measured":
        path = f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"
        return f'<path d="{path}" {outline} pointer-events="all">{title}</path>'
    if mark.kind == "failed":
        path = f"M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12"
        return f'<path d="{path}" {outline} pointer-events="all">{title}</path>'
    ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RING}" {outline}/>' if mark.kind == "chosen" else ""
    dot = f'cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}" class="c{mark.colour % COLOURS}" style="stroke:var(--back)"'
    return f"{ring}<circle {dot}>{title}</circle>"


def _labels(frame: _Frame, marks: Sequence[Mark], budget: int) -> Iterator[str]:
    """The chosen one's first, which is never left out. Marks at nearly the same place share a label."""
    y = frame.y(budget)
    taken = [_Box(frame.box.left, y - 1, frame.box.right, y + 1), *(_around(frame, mark) for mark in marks)]
    for names, place, chosen in _clusters(frame, marks):
        text = ("chosen: " if chosen else "") + _joined(names)
        reaches = (_RING, 2 * _RING, 3 * _RING, 4 * _RING) if chosen else (_RADIUS + 1,)
        sides = (side for reach in reaches for side in _sides(*place, reach))
        places = [side for side in sides if _inside(frame, _box(text, *side))]
        free = [side for side in places if not any(map(_box(text, *side).meets, taken))]
        for x, top, anchor in (free or places * chosen)[:1]:
            taken.append(_box(text, x, top, anchor))
            yield _text(x, top + 10, text, "label" if chosen else "", anchor)


def _inside(frame: _Frame, box: _Box) -> bool:
    across = frame.box.left <= box.left and box.right <= frame.box.right + 2
    return across and frame.box.top - 12 <= box.top and box.bottom <= frame.box.bottom


def _around(frame: _Frame, mark: Mark) -> _Box:
    x, y = frame.place(mark)
    reach = _RADIUS if mark.kind == "simulated" else _RING
    return _Box(x - reach, y - reach, x + reach, y + reach)


def _clusters(frame: _Frame, marks: Sequence[Mark]) -> list[tuple[list[str], tuple[float, float], bool]]:
    """Labels of the simulated that lie on one another, where, and whether it is the chosen one, which is alone."""
    found: list[tuple[list[str], tuple[float, float], bool]] = []
    for mark in sorted(marks, key=lambda mark: mark.kind != "chosen"):
        if mark.kind in ("measured", "failed") or not mark.label:
            continue
        x, y = frame.place(mark)
        for names, (x_there, y_there), chosen in found:
            if not chosen and abs(x - x_there) < 3 and abs(y - y_there) < 3:
                names.append(mark.label)
                break
        else:
            found.append(([mark.label], (x, y), mark.kind == "chosen"))
    return found


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) < 4 else [*names[:2], "…"])


def _sides(x: float, y: float, reach: float) -> Iterator[tuple[float, float, str]]:
    """Where a label may stand: its place across, its upper side, and what of it is there."""
    far, near = reach + _GAP, reach + 1
    yield x + far, y - 6, "start"
    yield x - far, y - 6, "end"
    yield x, y - reach - 13, "middle"
    yield x, y + reach + 1, "middle"
    for height in (y - near - 12, y + near):
        yield x + near, height, "start"
        yield x - near, height, "end"


def _box(text: str, x: float, top: float, anchor: str) -> _Box:
    width = _LETTER * len(text)
    left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
    return _Box(left, top, left + width, top + 12)


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> str:
    halo = "paint-order:stroke;stroke:var(--back);stroke-width:3"
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"'
    return f'<text {where} style="{halo}">{escape(text)}</text>'
