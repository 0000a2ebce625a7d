"""Proposals as a file that Hydra reads as an experiment: what was asked for, with what is proposed."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from hires import hydra_job
from hires.config_values import flow, plain
from hires.proposals import Proposal
from hires.runs import PATHS

FILE = "experiment/proposed.yaml"
_OWN = ("run_dir", "resume", "allow_targets", "experiment")
_WIDTH = 110

Tree = dict[str, Any]


def command_for(run_dir: Path) -> str:
    """How to train with the file that lies in a run directory."""
    return f"hires train --config-dir {shlex.quote(str(run_dir))} experiment=proposed"


def proposed_text(cfg: DictConfig, run_dir: Path, chosen: Sequence[Proposal]) -> str:
    """The file: the experiment and overrides of this command line, and the proposals with their reasons."""
    experiment, groups, values = _asked(cfg)
    lines = [
        "# @package _global_",
        f"# Proposed by hires check-data for {_one_line(cfg.data.root)}.",
        f"#   {command_for(run_dir)}",
    ]
    defaults = [
        *([experiment] if experiment else []),
        *({f"override /{k}": v} for k, v in groups.items()),
        "_self_",
    ]
    lines += ["defaults:", *(f"  - {flow(entry).strip('{}')}" for entry in defaults), ""]
    tree: Tree = {}
    for key, value in values.items():
        _put(tree, key, (value, ""))
    for key, value, reason in chosen:
        _put(tree, key, (value, reason))
    return "\n".join([*lines, *_lines(tree)]) + "\n"


def _asked(cfg: DictConfig) -> tuple[str | None, dict[str, str], dict[str, Any]]:
    """The experiment, groups and values of the command line."""
    choices = hydra_job.choices()
    if not choices:
        return None, {}, {"data.root": os.path.abspath(cfg.data.root)}
    groups: dict[str, str] = {}
    values: dict[str, Any] = {}
    for override in OverridesParser.create().parse_overrides(hydra_job.overrides()):
        key = override.key_or_group
        if key in _OWN or override.is_delete():
            continue
        if key in choices:
            groups[key] = str(choices[key])
        else:
            values[key] = _value(cfg, key)
    values.setdefault("data_dir", os.path.abspath(os.path.expanduser(str(cfg.data_dir))))
    return choices.get("experiment"), groups, values


def _value(cfg: DictConfig, key: str) -> Any:
    raw = plain(cfg)
    for part in key.split("."):
        raw = raw.get(part) if isinstance(raw, dict) else None
    if key in PATHS and isinstance(raw, str) and "${" not in raw:
        return os.path.abspath(os.path.expanduser(raw))
    return raw


def _put(tree: Tree, key: str, leaf: tuple[Any, str]) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[last] = leaf


def _lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, node in tree.items():
        if isinstance(node, dict):
            yield f"{indent}{key}:"
            yield from _lines(node, indent + "  ")
            continue
        value, reason = node
        yield from (f"{indent}# {line}" for line in wrap(_one_line(reason), _WIDTH))
        yield f"{indent}{key}: {flow(value)}"


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())
