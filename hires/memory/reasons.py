"""Why a plan is as it is, in sentences."""

from collections.abc import Iterator, Sequence

from hires.memory.predictions import Shape
from hires.memory.search import Found
from hires.visualize.text import size


def in_words(shape: Shape) -> str:
    return f"a micro-batch of {shape.micro_batch} at {shape.height} x {shape.width}"


def why(
    found: Found,
    measured: int | None,
    tried: Sequence[Found],
    shapes: Sequence[Shape],
    budget: int,
    margin: int,
    beyond: Shape | None = None,
) -> Iterator[str]:
    """What was chosen, what it costs, and what the next one larger than it, or than `beyond`, would need."""
    share = f"{found.cost:.0%}" if found.cost >= 0.005 else "less than 1%"
    again = f", and computes {share} of a step again" if found.cost else ", and computes nothing again"
    takes = f"is predicted to reserve {size(found.reserved)}" if measured is None else f"reserves {size(measured)}"
    yield f"{in_words(found.shape).capitalize()} {takes} of {size(budget)}{again} (estimated)."
    larger = [shape for shape in shapes if shape.pixels > (beyond or found.shape).pixels]
    if not larger:
        what = "Nothing larger" if beyond in (None, found.shape) else "No larger image"
        yield f"{what} is asked for." if len(shapes) > 1 else "Its shape was given."
        return
    over = [each for each in tried if each.shape == larger[0]]
    if over:
        least = min(each.reserved for each in over)
        free = f", and {size(margin)} have to stay free" if least <= budget else ""
        yield f"The next, {in_words(larger[0])}, is predicted to reserve {size(least)} at least{free}."
