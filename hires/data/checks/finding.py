"""What is found in a data set: one record for each kind of thing, with the files where it is."""

from collections.abc import Iterable, Sequence
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
    count: int  # of files, boxes, entries: what the text counts
    places: tuple[Place, ...] = ()


def found(
    code: str, severity: Severity, text: str, advice: str, places: Iterable[Place], count: int | None = None
) -> list[Finding]:
    """A finding of these places, whose number fills the {n} of the text; none where there are none."""
    places = tuple(places)
    number = len(places) if count is None else count
    return [Finding(code, severity, text.format(n=number), advice, number, places)] if places else []


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then warnings, then the rest; within them as they come."""
    return sorted(findings, key=lambda one: SEVERITIES.index(one.severity))


def shown(names: Sequence[str], most: int = 3) -> str:
    """The first few of some names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
