"""What charts as SVG text have in common. Colours are the classes c0 to c10 of the page."""

import math
from collections.abc import Sequence
from html import escape

COLOURS = 11


def drawing(height: float, parts: Sequence[str], what: str, *, width: float = 400) -> str:
    """Elements as one picture; `what` it is, for those who do not see it."""
    body, label = "\n".join(parts), escape(what)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">\n{body}\n</svg>'


def ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers, the first not above and the last not below the values."""
    span = high - low or abs(high) or 1.0
    raw = span / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * index for index in range(first, max(last, first + 1) + 1)]
