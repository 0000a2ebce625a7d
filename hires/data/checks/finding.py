"""What is found in a data set: one record for each kind of thing, with the files where it is."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""error: stops training or distorts it without a word; warning: worth a look; info: good to know."""


class Place(NamedTuple):
    """Where something was found."""

    file: str  # relative to the data set's root
    detail: str = ""  # what it is there


class Finding(NamedTuple):
    """One kind of thing that was found."""

    code: str  # stable, for programs
    severity: Severity
    text: str  # what it is, with its number
    advice: str  # what to do
    number: int  # of files, boxes, entries: what the text counts
    places: tuple[Place, ...] = ()


def findings_of(
    code: str, severity: Severity, text: str, advice: str, places: Iterable[Place], number: int | None = None
) -> list[Finding]:
    """A finding of these places, whose number fills the first {n} of the text; none where there are none.

    Whatever else stands in braces is a name of the data set.
    """
    places = tuple(places)
    number = len(places) if number is None else number
    return [Finding(code, severity, text.replace("{n}", str(number), 1), advice, number, places)] if places else []


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then warnings, then the rest; within them as they come."""
    return sorted(findings, key=lambda one: SEVERITIES.index(one.severity))


def percent(share: float) -> str:
    """A share as people read it: 0.028 %, 17 %, 100 %."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.2g} %"


def times(ratio: float) -> str:
    """How many times as many: 11.5, 4,520."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"
