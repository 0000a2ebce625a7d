"""What becomes of broken files where data.on_error=skip passes over them: up to half of a split's images."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hires.data.checks.examine import Record
from hires.data.checks.finding import Severity
from hires.data.settings import DataSettings


class Fate(NamedTuple):
    """How bad broken files are, and what is said of it after their number."""

    severity: Severity
    text: str


def fate_of_broken(settings: DataSettings, records: Sequence[Record], splits: Mapping[str, Sequence[int]]) -> Fate:
    """Of images whose file or label is broken."""
    if settings.on_error != "skip":
        return Fate("error", "")
    broken = {index for index, record in enumerate(records) if record.is_broken}
    stopped = [name for name, members in splits.items() if 2 * len(broken.intersection(members)) > len(members)]
    if stopped:
        return Fate("error", f": too many for data.on_error=skip, more than half of {', '.join(stopped)}")
    return Fate("warning", " and are skipped")
