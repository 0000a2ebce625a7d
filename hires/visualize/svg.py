"""Small charts as SVG text. Colours are the classes c0 to c10 of the page; others are those of the text."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from hires.visualize.text import short

COLOURS = 11
_WIDTH = 400  # units, about the pixels of a phone: text keeps its size there


def bars(rows: Sequence[tuple[str, Sequence[tuple[float | None, str]]]]) -> str:
    """Horizontal bars: for each label its values, each with the text behind it; no bar for None."""
    largest = max((value for _, values in rows for value, _ in values if value is not None), default=0.0)
    parts, y = [], 0
    for label, values in rows:
        parts.append(f'<text x="0" y="{y + 14}" class="label">{escape(short(label))}</text>')
        y += 20
        for index, (value, text) in enumerate(values):
            length = 290 * value / largest if value and largest else 0.0
            parts.append(
                f'<rect x="0" y="{y}" width="{length:.1f}" height="16" rx="2" class="c{index % COLOURS}"/>'
            )
            parts.append(f'<text x="{length + 6:.1f}" y="{y + 13}">{escape(text)}</text>')
            y += 20
        y += 10
    return drawing(y, parts, "bar chart")


def lines(series: Mapping[str, Sequence[float | None]], height: int = 240) -> str:
    """A line for each series over 1, 2, 3, ...; values that are None or not finite leave a gap.

    Lines get thinner from the first to the last, so that equal ones are all seen.
    """
    known = [value for values in series.values() for value in values if value is not None and math.isfinite(value)]
    if not known:
        return drawing(20, ['<text x="0" y="14">nothing to show</text>'], "empty chart")
    marks = ticks(min(known), max(known))
    count = max(map(len, series.values()))
    left, right, top, bottom = 46, _WIDTH - 8, 8, height - 24

    def x(index: int) -> float:
        return left + (right - left) * (index / (count - 1) if count > 1 else 0.5)

    def y(value: float) -> float:
        return bottom - (bottom - top) * (value - marks[0]) / (marks[-1] - marks[0])

    parts = []
    for tick in marks:
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for index in sorted({0, count // 2, count - 1}):
        parts.append(f'<text x="{x(index):.1f}" y="{height - 6}" text-anchor="middle">{index + 1}</text>')
    for place, (name, values) in enumerate(series.items()):
        width = 1.5 + 1.5 * (len(series) - 1 - place)
        points = [(x(i), y(v)) if v is not None and math.isfinite(v) else None for i, v in enumerate(values)]
        parts += [_line(run, place, width, name) for run in _runs(points)]
    return drawing(height, parts, "line chart")


def drawing(height: float, parts: Sequence[str], what: str, *, width: float = _WIDTH) -> str:
    """Elements as one picture; `what` it is, for those who do not see it."""
    body, label = "\n".join(parts), escape(what)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">\n{body}\n</svg>'


def _line(points: Sequence[tuple[float, float]], place: int, width: float, name: str) -> str:
    title, colour = f"<title>{escape(name)}</title>", f"c{place % COLOURS}"
    if len(points) == 1:
        (x, y), *_ = points
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 1}" class="{colour}">{title}</circle>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" class="line {colour}" stroke-width="{width}">{title}</polyline>'


def _runs(points: Sequence[tuple[float, float] | None]) -> Iterator[list[tuple[float, float]]]:
    """The points between gaps."""
    run: list[tuple[float, float]] = []
    for point in [*points, None]:
        if point is not None:
            run.append(point)
        elif run:
            yield run
            run = []


def ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers, the first not above and the last not below the values."""
    span = high - low or abs(high) or 1.0
    raw = span / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * index for index in range(first, max(last, first + 1) + 1)]
