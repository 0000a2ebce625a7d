"""`run_config=PATH`: the configuration of another run, with what the command line changes in it.

A run's configuration is data from strangers: its targets are checked before any of them is imported.
"""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hires import instantiate
from hires.cli.check import check
from hires.cli.errors import missing
from hires.cli.paths import as_texts
from hires.config_values import keys_below, plain
from hires.errors import ConfigError
from hires.request import Request

KEY = "run_config"
OF_THE_COMMAND = (
    *(KEY, "run_dir", "resume", "allow_targets", "log_level"),
    *("runs", "settings", "steps", "evaluate", "measure_memory"),  # of compare
)
"""Keys that say what to do with the configuration, and come from the command line alone."""
_LOOSENED = "loosened"
"""Attribute of a request's flags: the keys that `loosened` has let in."""


def loosened(request: Request) -> Request:
    """The request with values that hydra takes although its own defaults lack their keys.

    What they change is the configuration of the run, whose keys it does not know. Without one it is as it was.
    """
    if not any(text.startswith(f"{KEY}=") for text in request.overrides):
        return request
    own = (*request.groups(), *OF_THE_COMMAND)
    let_in = {text for text in request.overrides if _is_value(text, own)}
    overrides = [f"++{text}" if text in let_in else text for text in request.overrides]
    keys = {text.partition("=")[0] for text in let_in} | getattr(request.flags, _LOOSENED, set())
    flags = {**vars(request.flags), "overrides": overrides, _LOOSENED: keys}
    return replace(request, flags=Namespace(**flags))


def _is_value(text: str, own: tuple[str, ...]) -> bool:
    """Whether an override gives a value to a key of a run; one that cannot be read stays as it is, to be told."""
    if text.startswith(("+", "~", "hydra.", "hydra/")) or text.partition("=")[0] in own:
        return False
    try:
        OverridesParser.create().parse_override(text)
    except HydraException:
        return False
    return True


def repeated(cfg: DictConfig, node: Any, request: Request) -> DictConfig:
    """The configuration of the run that `cfg.run_config` names, with a job's overrides; `cfg` where it is null.

    `node` is hydra's own of the job, whose request has been loosened. Raises ConfigError for what is wrong in the
    file, in one of the overrides, or does not go together.
    """
    as_texts(cfg)
    if not cfg.get(KEY):
        return cfg
    path = Path(cfg[KEY]).expanduser()
    path = path / "config.yaml" if path.is_dir() else path
    if cfg.resume not in (None, "auto"):
        raise ConfigError(f"resume: got {cfg.resume} beside {KEY}; a resumed run has a configuration already")
    kept = _checked(path, cfg, node, request)
    overrides = list(_overrides(node, request))
    chosen = {override.key_or_group for override in overrides if _chooses(override, request)}
    if "experiment" in chosen:
        raise ConfigError(f"experiment: cannot be chosen beside {KEY}, which has the keys of one already")
    for group in _changed_groups(node, request) | chosen:
        kept[group] = plain(cfg).get(group)
    for override in overrides:
        if override.key_or_group not in (*chosen, *OF_THE_COMMAND):
            _apply(kept, override)
    for key in OF_THE_COMMAND:
        if key in cfg:
            kept[key] = cfg[key]
    kept[KEY] = None
    return kept


def _checked(path: Path, cfg: DictConfig, node: Any, request: Request) -> DictConfig:
    """The file's configuration. What it lacks that a later version has added is as that ships it."""
    from hires.runs import read_config  # imports torch

    with _named(path):
        kept = read_config(path)
        own = plain(cfg)
        for key in own:
            if key not in kept and (key in OF_THE_COMMAND or not isinstance(own[key], dict)):
                kept[key] = own[key]
        check(kept, request, node)
        instantiate.check(kept, "", instantiate.allowed_on_command_line())
    return kept


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Says of an error which file it is about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{KEY}: {path}: {error}") from error


def _overrides(node: Any, request: Request) -> Iterator[Override]:
    """Those of a job, as they were given."""
    parser, let_in = OverridesParser.create(), getattr(request.flags, _LOOSENED, ())
    for text in node.overrides.task:
        loose = text.startswith("++") and text.partition("=")[0].removeprefix("++") in let_in
        yield parser.parse_override(text.removeprefix("++") if loose else text)


def _chooses(override: Override, request: Request) -> bool:
    return override.key_or_group in request.groups() and not isinstance(override.value(), dict)


def _changed_groups(node: Any, request: Request) -> set[str]:
    """Groups of which the command line has chosen something, by itself or because of another choice.

    What a command itself has otherwise than a training counts: `autobatch` asks memory.maximize=batch of any run.
    """
    training, own = replace(request, command="train").compose([]), request.compose([])
    shipped, groups = training.hydra.runtime.choices, [g for g in node.runtime.choices if "/" not in str(g)]
    chosen = {str(group) for group in groups if shipped.get(group) != node.runtime.choices[group]}
    return chosen | {str(group) for group in groups if plain(own.get(group)) != plain(training.get(group))}


def _apply(kept: DictConfig, override: Override) -> None:
    key, value = override.key_or_group, override.value()
    there = key in keys_below(kept)
    if not there and not (override.is_add() or override.is_force_add()):
        raise ConfigError(missing(key, kept))
    try:
        if override.is_delete():
            parent, _, name = key.rpartition(".")
            del (OmegaConf.select(kept, parent) if parent else kept)[name]
            return
        before = OmegaConf.select(kept, key) if there and isinstance(value, dict) else None
        # the parameters of a target are changed one by one, other mappings are one value
        merge = isinstance(before, DictConfig) and instantiate.TARGET in before
        OmegaConf.update(kept, key, value, merge=merge or override.is_force_add(), force_add=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{key}: {str(error).splitlines()[0]}") from error
