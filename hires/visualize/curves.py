"""Lines over a common axis, of series that need not be of the same places."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from hires.visualize.page import by_width
from hires.visualize.svg import COLOURS, drawing, ticks

Points = Sequence[tuple[float, float | None]]
_MOST = 400  # points of a line: more would not be seen, and the file is to stay small
_LETTER = 7  # units that a letter takes at most, on average: fonts differ


def curves(series: Mapping[str, Points], across: str, colours: Sequence[int] = (), *, nested: bool = False) -> str:
    """A chart for a phone and one for a laptop; values that are None or not finite leave a gap.

    `across`: what the horizontal axis is. Colours are those of the places of the series unless given. `nested`
    lines get thinner from the first series to the last, so that equal ones are all seen.
    """
    shown = {name: _thinned([(x, y) for x, y in points]) for name, points in series.items()}
    known = [(x, y) for points in shown.values() for x, y in points if _is_known(y)]
    if not known:
        return drawing(20, ['<text x="0" y="14">nothing to show</text>'], "empty chart")
    colours = colours or range(len(series))
    widths = [2.0 + 2.5 * nested * (len(series) - 1 - place) for place in range(len(series))]
    looks = list(zip(colours, widths, strict=True))
    return by_width(_chart(shown, known, across, looks, 400, 240), _chart(shown, known, across, looks, 760, 280))


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _thinned(points: list[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """Every n-th point and the last one."""
    every = -(-len(points) // _MOST)
    if every <= 1:
        return points
    return [*points[:-1:every], points[-1]]


def _chart(
    series: Mapping[str, Points],
    known: Sequence[tuple[float, float | None]],
    across: str,
    looks: Sequence[tuple[int, float]],
    width: int,
    height: int,
) -> str:
    values, places = [y for _, y in known if y is not None], [x for x, _ in known]
    marks, low, high = ticks(min(values), max(values)), min(places), max(places)
    texts = _texts(marks)
    left, right, top, bottom = 12 + _LETTER * max(map(len, texts)), width - 10, 10, height - 38

    def x(place: float) -> float:
        return left + (right - left) * ((place - low) / (high - low) if high > low else 0.5)

    def y(value: float) -> float:
        return bottom - (bottom - top) * (value - marks[0]) / (marks[-1] - marks[0])

    parts = []
    for mark, text in zip(marks, texts, strict=True):
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" class="grid"/>')
        parts.append(_text(left - 6, y(mark) + 4, text, "end"))
    for place in _places(low, high):
        anchor = "middle" if low < place < high or low == high else "start" if place == low else "end"
        parts.append(_text(x(place), bottom + 16, f"{place:g}", anchor))
    parts.append(_text((left + right) / 2, height - 4, across, "middle", "faint"))
    for (name, points), look in zip(series.items(), looks, strict=True):
        drawn = [(x(p), y(v)) if v is not None and math.isfinite(v) else None for p, v in points]
        parts += _line(drawn, look, name)
    return drawing(height, parts, f"line chart over {across}: {', '.join(series)}", width=width)


def _texts(marks: Sequence[float]) -> list[str]:
    """Numbers as short as they can be told apart."""
    forms = ([f"{mark:.{digits}g}" for mark in marks] for digits in range(4, 17))
    return next((texts for texts in forms if len(set(texts)) == len(texts)), [f"{mark:g}" for mark in marks])


def _places(low: float, high: float) -> list[float]:
    """The first, the last, and round places between that leave room to both."""
    if low == high:
        return [low]
    inside = [mark for mark in ticks(low, high) if low + 0.12 * (high - low) < mark < high - 0.12 * (high - low)]
    return [low, *inside, high]


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _line(points: Sequence[tuple[float, float] | None], look: tuple[int, float], name: str) -> Iterator[str]:
    """A line for each run of points between gaps; a dot for one that stands alone. A look: colour and width."""
    colour, width = look
    title, kind = f"<title>{escape(name)}</title>", f"c{colour % COLOURS}"
    run: list[tuple[float, float]] = []
    for point in [*points, None]:
        if point is not None:
            run.append(point)
        elif len(run) == 1:
            (place, level), *_ = run
            spot = f'cx="{place:.1f}" cy="{level:.1f}" r="{width / 2 + 3:g}"'
            yield f'<circle {spot} class="{kind}">{title}</circle>'
            run = []
        elif run:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            yield f'<polyline points="{path}" class="line {kind}" stroke-width="{width:g}">{title}</polyline>'
            run = []
