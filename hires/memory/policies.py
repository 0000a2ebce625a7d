"""What is said about activation checkpointing, in words, and what that means for each unit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from hires.interfaces import ConfigError
from hires.memory.kinds import KINDS
from hires.memory.units import Unit

KEY = "memory.activation_checkpointing"
AUTO = "auto"  # a planner decides
Policies = str | Mapping[str, str]
"""One policy for all units, or policies by stage, unit or range of units."""
_TOGETHER = re.compile(r"full@(stage|[1-9]\d*)")
_UNITS = re.compile(r"([a-z]+\d*)(?:\.(\d+)(?:-(\d+))?)?")


@dataclass(frozen=True)
class Policy:
    """What is kept of the units of a segment; `together` units make a segment, None: all of a stage."""

    kind: str = "none"  # one of KINDS
    together: int | None = 1

    def __str__(self) -> str:
        together = {None: "@stage", 1: ""}.get(self.together, f"@{self.together}")
        return f"{self.kind}{together}"


def parse_policy(text: str, key: str = KEY) -> Policy:
    """One of KINDS, `full@stage` or `full@2`. Raises ConfigError for anything else."""
    if text in KINDS:
        return Policy(text)
    match = _TOGETHER.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{key}: got {text}, allowed: {', '.join(KINDS)}, full@stage, full@2 (two units together), "
            f"or {AUTO} for all"
        )
    return Policy("full", None if match[1] == "stage" else int(match[1]))


def check_policies(said: Policies) -> None:
    """Raises ConfigError for a policy that does not exist."""
    for name, text in [("", said)] if isinstance(said, str) else said.items():
        parse_policy(text, f"{KEY}.{name}".rstrip("."))


def policies_of(said: Policies, units: Sequence[Unit]) -> dict[str, Policy]:
    """The policy of every unit by name: one for all, or by stage, unit or range of units (`stage3.0-5`).

    A unit goes before a range, a range before a stage. Raises ConfigError for a name that the model does not have.
    """
    if isinstance(said, str):
        policy = parse_policy(said)
        return {unit.name: policy for unit in units}
    chosen = {unit.name: Policy() for unit in units}
    named = [(_named(name, units), name, parse_policy(text, f"{KEY}.{name}")) for name, text in said.items()]
    for names, _, policy in sorted(named, key=lambda entry: ("." in entry[1], -len(entry[0]))):
        chosen.update(dict.fromkeys(names, policy))
    return chosen


def _named(name: str, units: Sequence[Unit]) -> list[str]:
    """The units that a key of the configuration means."""
    match = _UNITS.fullmatch(name)
    of_stage = [unit.name for unit in units if match and unit.stage == match[1]]
    if match is None or not of_stage:
        stages = list(dict.fromkeys(unit.stage for unit in units))
        near = get_close_matches(name, stages, n=1)
        hint = f"; did you mean {near[0]}?" if near else ","
        raise ConfigError(f"{KEY}.{name}: no such stage{hint} the model has: {', '.join(stages)}")
    if match[2] is None:
        return of_stage
    first, last = int(match[2]), int(match[3] or match[2])
    if not first <= last < len(of_stage):
        raise ConfigError(f"{KEY}.{name}: no such unit; {match[1]} has: {', '.join(of_stage)}")
    return of_stage[first : last + 1]


def segments_of(policies: Mapping[str, Policy], units: Sequence[Unit]) -> dict[str, str]:
    """The segment that each unit belongs to, by the names of its first and last unit."""
    segments: dict[str, str] = {}
    for row in _rows(policies, units):
        together = policies[row[0]].together or len(row)
        for start in range(0, len(row), together):
            names = row[start : start + together]
            segments.update(dict.fromkeys(names, names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"))
    return segments


def _rows(policies: Mapping[str, Policy], units: Sequence[Unit]) -> list[list[str]]:
    """Units of a stage with the same policy that follow one another."""
    rows: list[list[str]] = []
    before = None
    for unit in units:
        this = unit.stage, policies[unit.name]
        if this != before:
            rows.append([])
        rows[-1].append(unit.name)
        before = this
    return rows


def shortened(policies: Mapping[str, Policy], units: Sequence[Unit]) -> Policies:
    """The same policies as they are given: one for all, or by stage and range; units with `none` are left out."""
    if len(set(policies.values())) == 1:
        return str(next(iter(policies.values())))
    short: dict[str, str] = {}
    for stage in dict.fromkeys(unit.stage for unit in units):
        names = [unit.name for unit in units if unit.stage == stage]
        for row in _rows(policies, [unit for unit in units if unit.stage == stage]):
            policy = policies[row[0]]
            if policy != Policy():
                whole = len(row) == len(names)
                short[stage if whole else _range(stage, names.index(row[0]), len(row))] = str(policy)
    return short


def _range(stage: str, first: int, count: int) -> str:
    return f"{stage}.{first}" if count == 1 else f"{stage}.{first}-{first + count - 1}"


def as_override(said: Policies) -> str:
    """Policies as they are given on the command line."""
    if isinstance(said, str):
        return f"{KEY}={said}"
    return f"'{KEY}={{{', '.join(f'{name}: {policy}' for name, policy in said.items())}}}'"
