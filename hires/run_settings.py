"""How the configuration of a run differs from the defaults, or from that of another run."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig

from hires.config_values import flow, leaves
from hires.request import Request, parse

ABSENT = object()
_GROUPS = ("data", "model", "backbone", "augmentation", "optimizer", "scheduler", "memory", "logger")
_OF_A_RUN = ("run_dir", "resume", "data_dir", "allow_targets", "log_level", "run_config")
"""Keys that say where, not how."""
_WHOLE = ("memory.activation_checkpointing", "data.classes", "data.splits")
"""Mappings that are values."""
_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:[/\\]|(?:file|sqlite):/")
"""How a place on somebody's machine begins, also in an address."""


def differing(cfg: DictConfig) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """The option of each group that the configuration of a training is nearest to, and what differs from those.

    The latter as (key, value, default), sorted as in the configuration. Both as texts.
    """
    own = how_to_train(cfg)
    request = parse("train", [])
    chosen = dict(_nearest(request, own))
    default = request.compose([f"{group}={option}" for group, option in chosen.items()])
    usual = how_to_train(default)
    rows = [
        (key, text(key, value), text(key, usual.get(key, ABSENT)))
        for key, value in own.items()
        if value != usual.get(key, ABSENT) and not (value is None and key not in usual)
    ]
    return chosen, rows


def how_to_train(cfg: Any) -> dict[str, Any]:
    """Dotted keys of how to train, and their values; interpolations as they are written."""
    return {key: value for key, value in leaves(cfg, _WHOLE) if key.partition(".")[0] not in (*_OF_A_RUN, "hydra")}


def differences(cfgs: Mapping[str, DictConfig]) -> dict[str, dict[str, str]]:
    """Keys in which configurations differ, with the text of each one's value by name."""
    plain = {name: how_to_train(cfg) for name, cfg in cfgs.items()}
    keys = dict.fromkeys(key for each in plain.values() for key in each)
    values = {key: {name: each.get(key, ABSENT) for name, each in plain.items()} for key in keys}
    return {
        key: {name: text(key, value) for name, value in each.items()}
        for key, each in values.items()
        if any(value != next(iter(each.values())) for value in each.values())
    }


def text(key: str, value: Any) -> str:
    """A value as on a command line; of absolute paths only the last part, which names nobody's folders."""
    if value is ABSENT:
        return "–"
    value = _shortened(value)
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and key == "memory.activation_checkpointing":
        return f"a policy for each of {len(value)} stages or units"
    return flow(value)


def _shortened(value: Any) -> Any:
    """A value with only the last parts of the absolute paths in it, whatever key they are of."""
    if isinstance(value, dict):
        return {_shortened(name): _shortened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    if not isinstance(value, str) or "${" in value or not _ABSOLUTE.match(value):
        return value
    return re.split(r"[/\\]", value.rstrip("/\\"))[-1] or value


def _nearest(request: Request, own: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Of each group the option whose file says most of what the configuration says."""
    groups, usual = request.groups(), request.compose([]).hydra.runtime.choices
    for group in _GROUPS:
        mine = {key: value for key, value in own.items() if key.startswith(f"{group}.")}
        scores = {}
        for option in groups.get(group, []):
            there = how_to_train({group: _content(request, group, option)})
            same = sum(own.get(key, ABSENT) == value for key, value in there.items())
            target = own.get(f"{group}._target_") == there.get(f"{group}._target_")
            alike = same - len({*there} ^ {*mine})
            scores[option] = (target, alike, usual.get(group) == option)
        if scores:
            yield group, max(scores, key=scores.__getitem__)


def _content(request: Request, group: str, option: str) -> dict[str, Any]:
    """What the file of an option says, on top of those of its group that it builds on."""
    path = request.file(f"{group}/{option}")
    own = dict(_read(path, path.stat().st_mtime_ns)) if path else {}
    result: dict[str, Any] = {}
    for entry in own.pop("defaults", []):
        if isinstance(entry, str) and entry != "_self_":
            result = _merged(result, _content(request, group, entry))
    return _merged(result, own)


@cache
def _read(path: Path, changed: int) -> dict[str, Any]:
    """A file, once until it changes (`changed`: when it did, ns)."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(one[key], other[key]) for key in one if _are_mappings(one[key], other.get(key))}
    return {**one, **other, **both}


def _are_mappings(*values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)
