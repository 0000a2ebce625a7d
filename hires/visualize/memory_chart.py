"""Bytes over one training step as stacked areas: from left to right in order of execution."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from hires.visualize.svg import COLOURS, drawing, ticks
from hires.visualize.text import short, size

_LETTER = 7  # units that a letter takes at most, on average: fonts differ
_ROW = 16


@dataclass(frozen=True)
class Place:
    """What a step does from a sample on."""

    index: int
    phase: str
    unit: str | None

    def __str__(self) -> str:
        return f"{self.phase} of {self.unit}" if self.unit else self.phase

    @property
    def stage(self) -> str:
        return (self.unit or "").split(".")[0]


@dataclass(frozen=True)
class _Span:
    """Samples from the first to before the end, and what they are called."""

    first: int
    end: int
    text: str


@dataclass(frozen=True)
class _Frame:
    """From samples and bytes to units of the drawing."""

    left: float
    right: float
    top: float
    bottom: float
    count: int
    largest: int

    def x(self, index: float) -> float:
        """The left side of a sample: each has a share of the width, as its bytes stay until the next."""
        return self.left + (self.right - self.left) * index / self.count

    def y(self, count: float) -> float:
        return self.bottom - (self.bottom - self.top) * count / self.largest

    def width(self, span: _Span) -> float:
        return self.x(span.end) - self.x(span.first)

    def middle(self, span: _Span) -> float:
        return self.x((span.first + span.end) / 2)


def areas(
    layers: Mapping[str, Sequence[int]],
    places: Sequence[Place],
    colours: Sequence[int],
    *,
    peak: str = "peak",
    width: int = 360,
    height: int = 260,
) -> str:
    """Layers of bytes on one another, the first at the bottom, each in its colour of the page.

    All layers have the same number of samples. Phases are named below the axis; on a wide drawing stages too,
    where there is room. `peak` stands over the first sample with the most bytes.
    """
    tops = _tops(layers)
    total = tops[-1] if tops else []
    if not any(total):
        return drawing(20, ['<text x="0" y="14">nothing to show</text>'], "empty chart", width=width)
    marks = _marks(max(total))
    left = 8 + _LETTER * max(len(text) for _, text in marks)
    frame = _Frame(left, width - 4, 28, height, len(total), max(total))
    shown = [index for index, values in enumerate(layers.values()) if any(values)]
    stages = _stages(places, frame) if width > 600 else []
    start = height + _ROW * bool(stages)
    phases, end = _phases(places, frame, start)
    layered = [_area(frame, tops[index], colours[index]) for index in reversed(shown)]
    parts = [
        *_axis(frame, marks),
        *layered,
        *_lines(frame, marks, "over"),
        *stages,
        *phases,
        *_peak(frame, total, peak),
        *_hints(frame, total, places),
    ]
    return drawing(end, parts, f"bytes over the step, stacked by category: {peak}", width=width)


def _tops(layers: Mapping[str, Sequence[int]]) -> list[list[int]]:
    """For every layer the bytes up to its upper side; the last are the totals."""
    found: list[list[int]] = []
    for values in layers.values():
        found.append([a + b for a, b in zip(found[-1], values, strict=True)] if found else list(values))
    return found


def _marks(largest: int) -> list[tuple[float, str]]:
    """Round numbers of bytes up to the largest, with their texts."""
    unit, name = (2**30, "GiB") if largest >= 2**30 else (2**20, "MiB")
    _, step, *_ = ticks(0, 0.6 * largest / unit)  # three to seven of them lie in the chart
    return [(step * i * unit, f"{step * i:g} {name}") for i in range(int(largest / unit / step) + 1)]


def _area(frame: _Frame, values: Sequence[int], colour: int) -> str:
    """Down to the axis: the layers below are drawn over it, so that no gap shows between two."""
    path, last = [f"M{frame.left:.1f} {frame.bottom:.1f}"], ""
    for index, value in enumerate(values):
        level = f"{frame.y(value):.1f}"
        if level != last:
            path.append(f"H{frame.x(index):.1f}V{level}")
        last = level
    path.append(f"H{frame.right:.1f}V{frame.bottom:.1f}Z")
    return f'<path d="{"".join(path)}" class="area c{colour % COLOURS}"/>'


def _axis(frame: _Frame, marks: Sequence[tuple[float, str]]) -> list[str]:
    texts = [_text(frame.left - 6, frame.y(value) + 4, text, anchor="end") for value, text in marks]
    return [*_lines(frame, marks, "grid"), *texts]


def _lines(frame: _Frame, marks: Sequence[tuple[float, str]], kind: str) -> Iterator[str]:
    for y in (frame.y(value) for value, _ in marks):
        yield _line(frame.left, frame.right, y, y, kind)


def _stages(places: Sequence[Place], frame: _Frame) -> list[str]:
    spans = _spans(places, frame.count, lambda place: (place.stage, place.phase))
    fitting = [span for span in spans if span.text and _LETTER * len(span.text) < frame.width(span)]
    return [_text(frame.middle(span), frame.bottom + 14, span.text, "faint") for span in fitting]


def _phases(places: Sequence[Place], frame: _Frame, start: float) -> tuple[list[str], float]:
    """Where phases begin, their names in rows, and how far down these reach.

    Of many micro-batches not every one is shown: a name that stands there already takes no third row.
    """
    parts: list[str] = []
    rows: list[float] = []  # where the last name of each ends
    named: set[str] = set()
    for span in _spans(places, frame.count, lambda place: (place.phase,)):
        text, first = short(span.text), frame.x(span.first)
        half = _LETTER * len(text) / 2
        x = max(half, min(frame.middle(span), frame.right - half))
        row = next((index for index, end in enumerate(rows) if end + _LETTER < x - half), len(rows))
        if row > 1 and span.text in named:
            continue
        named.add(span.text)
        rows[row : row + 1] = [x + half + _LETTER]
        parts.append(_text(x, start + 16 + _ROW * row, text, "label"))
        if span.first:
            parts.append(_line(first, first, frame.top, start + 4, "mark"))
    return parts, start + 8 + _ROW * len(rows)


def _spans(places: Sequence[Place], count: int, key: Callable[[Place], tuple[str, ...]]) -> list[_Span]:
    """Neighbours with the same key as one, called by the first part of the key."""
    runs = [(min(next(run).index, count), names[0]) for names, run in groupby(places, key)]
    ends = [*(first for first, _ in runs[1:]), count]
    return [_Span(first, end, text) for (first, text), end in zip(runs, ends, strict=False) if first < end]


def _peak(frame: _Frame, total: Sequence[int], text: str) -> Iterator[str]:
    index = total.index(frame.largest)
    x, letters = frame.x(index + 0.5), short(text, int((frame.right - frame.left) / _LETTER))
    half = _LETTER * len(letters) / 2
    anchor, at = "middle", x
    if x - half < frame.left:
        anchor, at = "start", frame.left
    elif x + half > frame.right:
        anchor, at = "end", frame.right
    yield _line(x, x, 17, frame.top, "mark")
    yield f'<circle cx="{x:.1f}" cy="{frame.top:.1f}" r="4" class="dot"/>'
    yield _text(at, 12, letters, "label", anchor)


def _hints(frame: _Frame, total: Sequence[int], places: Sequence[Place]) -> Iterator[str]:
    """What a mouse that rests on a place is told."""
    for span in _spans(places, frame.count, lambda place: (str(place), place.phase)):
        x, title = frame.x(span.first), f"{span.text}: up to {size(max(total[span.first : span.end]))}"
        where = f'x="{x:.1f}" y="{frame.top}" width="{frame.width(span):.1f}" height="{frame.bottom - frame.top}"'
        yield f'<rect {where} class="hover"><title>{escape(title)}</title></rect>'


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'
