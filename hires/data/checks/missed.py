"""Files beside those of a data set that its globs miss by the case of an ending."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from hires.data.checks.finding import Finding, Place, findings_of
from hires.data.glob_keys import kept_by, key_of
from hires.data.globbing import Found
from hires.data.letter_case import other_case


def missed_files(root: Path, globs: Iterable[tuple[str, str]], exclude: Sequence[str]) -> list[Finding]:
    """A finding for each glob, which comes after the name of its setting, that misses files so."""
    findings: list[Finding] = []
    for name, pattern in globs:
        matched = {key_of(path, pattern) for path in Found(root, pattern).paths}
        other = other_case(root, pattern, matched, kept_by(exclude))
        if other:
            findings += findings_of(
                "other-case",
                "warning",
                f"{{n}} file(s) beside those of data.{name}={pattern} {other}",
                f"data.{name}={other.both} takes both",
                map(Place, other.paths),
            )
    return findings
