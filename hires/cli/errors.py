"""Says what is wrong with a command line: the key, what was given, what is allowed, the nearest match."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from hires.cli import launchers
from hires.config_values import keys_below
from hires.errors import ConfigError
from hires.instantiate import no_such_key
from hires.request import Request

CONFIG_ERRORS = (HydraException, OmegaConfBaseException, YAMLError, ValueError)
"""What hydra raises for a wrong command line or config file."""

_POLICIES = "memory.activation_checkpointing"
_CHECKPOINTING = re.compile(r"grad(ient)?_?checkpointing")


def explain(error: Exception, request: Request) -> str:
    """One line for an exception that hydra raised while it composed the configuration."""
    try:
        return next(problems(request))
    except StopIteration:
        return translated(error)


def check_overrides(request: Request) -> None:
    """Raises ConfigError for what hydra lets pass: an option that an optional group does not have, keys that
    hires calls by another name, and a policy of one stage in the place of one for all."""
    for text in request.overrides:
        if _CHECKPOINTING.search(text):
            for message in checkpointing(text, _base(request, [])):
                raise ConfigError(message)
    elsewhere = request.flags.config_name or any("hydra.searchpath" in text for text in request.overrides)
    parsed, _ = _parsed(request)
    groups = {} if elsewhere else request.groups()
    for override in _choices(parsed, groups):
        for message in _group_problems(override, groups[override.key_or_group]):
            raise ConfigError(message)
    for override in parsed:
        if override.is_force_add() and override.key_or_group.startswith(f"{_POLICIES}."):
            base = _base(request, [o for o in _choices(parsed, groups) if not o.is_sweep_override()])
            for message in _one_policy_for_all(override.key_or_group, base):
                raise ConfigError(message)


def problems(request: Request) -> Iterator[str]:
    """What can be said of each override by itself, the first ones first."""
    parsed, unreadable = _parsed(request)
    yield from unreadable
    for override in parsed:
        if override.is_sweep_override() and not request.flags.multirun:
            yield several_values(override)
    choices = _choices(parsed, request.groups())
    base = _base(request, [o for o in choices if not o.is_sweep_override()])
    for override in parsed:
        chosen = override in choices and override.key_or_group in base.hydra.runtime.choices
        if chosen and override.is_add():
            yield f"{override.key_or_group}: is chosen already; leave out the +"
        if not chosen and not override.key_or_group.startswith("hydra"):
            yield from _key_problems(override, base)
        if override.key_or_group.startswith("hydra."):
            yield from launchers.key_problems(override, request)


def syntax(text: str) -> str:
    """An override that cannot be read."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        return f"{text}: got no {'value' if key else 'key'}; write KEY=VALUE, for example trainer.max_steps=100"
    if value.startswith("{") and re.search(r"""["']\s*:""", value):
        return f"{key}: got {value}, which cannot be read; keys of a mapping take no quotes"
    if value.startswith(("[", "{", "$")) and "=" not in value:
        return (
            f"{key}: got {value}, which cannot be read; are all brackets and quotes closed? "
            f"A shell splits at blanks: quote all of it, '{key}=...'"
        )
    return f"{key}: got {value}, which cannot be read; are all quotes closed?"


def several_values(override: Override) -> str:
    key, value = _key_and_value(override)
    return (
        f"{key}: got {value}, several values; -m sweeps over them, {key}=[{value}] is a list, "
        f"{key}='\"{value}\"' is one text"
    )


def unknown_option(group: str, given: Any, options: list[str]) -> str:
    """A group option that does not exist."""
    near = get_close_matches(str(given), options, n=1)
    hint = f"did you mean {group}={near[0]}? " if near else ""
    return f"{group}: got {'null' if given is None else given}; {hint}allowed: {', '.join(options)}"


def missing(key: str, base: DictConfig) -> str:
    """A key that a composed configuration does not have, at any depth."""
    paths = list(keys_below(base))
    parts = key.split(".")
    depth = max(n for n in range(len(parts)) if n == 0 or ".".join(parts[:n]) in paths)
    where = ".".join(parts[:depth])
    node = OmegaConf.select(base, where, throw_on_missing=False) if where else base
    if not OmegaConf.is_dict(node):
        hint = f"; ++{key}=... makes it one" if where == _POLICIES else ""
        return f"{key}: no such key; {where} is not a mapping{hint}"
    allowed = [str(k) for k in node if not str(k).startswith("_") and (where or k != "hydra")]
    near = get_close_matches(parts[depth], allowed, n=1)
    if near:
        spelled = [".".join([*parts[:depth], near[0], *parts[depth + 1 :][:n]]) for n in range(len(parts))]
        near = [path for path in spelled if path in paths][-1:]
    else:
        same = [path for path in paths if path.rpartition(".")[2] == parts[-1]]
        near = same or get_close_matches(key, paths, n=1)
    return no_such_key(key, near[0] if near else None, where, allowed)


def translated(error: Exception) -> str:
    """Hydra's own message on one line, without its advice to add the key by force."""
    if isinstance(error, MissingConfigException) and error.options and error.missing_cfg_file:
        group, _, option = error.missing_cfg_file.rpartition("/")
        where = str(error).partition(":")[0]
        return f"{where}: {unknown_option(group, option, list(error.options))}"
    texts = [str(error), str(error.__cause__ or "")]
    lines = [line.strip() for text in texts for line in text.partition("\nConfig search path")[0].splitlines()]
    kept = [x.rstrip(".") for x in lines if x and not x.startswith(("To append to", "object_type="))]
    return "; ".join(kept).replace("full_key: ", "key ") or type(error).__name__


def out_of_memory(error: BaseException) -> str:
    """One line for a command that ran out of memory."""
    what = " ".join(str(error).split()) or type(error).__name__
    return (
        f"memory ran out: {what.rstrip('.')}; give the process more (a larger memory.budget), let `hires "
        "autobatch` find what fits, or take a smaller image_size or micro_batch_size (in an evaluation, "
        "evaluation.batch_size)"
    )


def readable(request: Request) -> list[Override]:
    """The overrides that can be read."""
    return _parsed(request)[0]


def _parsed(request: Request) -> tuple[list[Override], list[str]]:
    """The overrides that can be read, and messages for the others."""
    parser = OverridesParser.create()
    parsed: list[Override] = []
    unreadable: list[str] = []
    for text in request.overrides:
        try:
            override = parser.parse_override(text)
        except HydraException:
            unreadable.append(syntax(text))
            continue
        if override.key_or_group:
            parsed.append(override)
        else:
            unreadable.append(syntax(text))
    return parsed, unreadable


def _choices(parsed: list[Override], groups: Mapping[str, list[str]]) -> list[Override]:
    """The overrides that choose options of groups."""
    return [o for o in parsed if o.key_or_group in groups and not isinstance(o.value(), dict)]


def checkpointing(text: str, base: DictConfig) -> Iterator[str]:
    """The hint for who knows activation checkpointing by another name."""
    key, _, value = text.lstrip("+~").partition("=")
    in_key, in_value = _CHECKPOINTING.search(key), re.search(_CHECKPOINTING.pattern + r"['\"]?\s*:", value)
    paths = keys_below(base)
    if in_value or (in_key and key not in paths):
        instead = f"set {_POLICIES}" if _POLICIES in paths else f"{_POLICIES}, which this command does not have"
        yield f"{key}: no such key; hires calls this activation checkpointing: {instead}"


def _group_problems(override: Override, options: list[str]) -> Iterator[str]:
    value: Any = override.value()
    if override.is_delete():
        return
    given: list[Any] = (
        value.list if isinstance(value, ChoiceSweep) else value if isinstance(value, list) else [value]
    )
    for option in given:
        text = getattr(option, "text", option)
        if str(text) not in options:
            yield unknown_option(override.key_or_group, text, options)


def _key_problems(override: Override, base: DictConfig) -> Iterator[str]:
    key, _ = _key_and_value(override)
    paths = keys_below(base)
    value = override.value()
    if override.is_add():
        if key in paths:
            yield f"{key}: exists already; leave out the +"
    elif override.is_force_add():
        return
    elif key not in paths:
        yield missing(key, base)
    elif isinstance(value, dict) and OmegaConf.is_dict(OmegaConf.select(base, key, throw_on_missing=False)):
        hint = f" (++{_POLICIES}=... adds it)" if key == _POLICIES else ""
        yield from (missing(path, base) + hint for path in keys_below(value, f"{key}.") if path not in paths)


def _one_policy_for_all(key: str, base: DictConfig) -> Iterator[str]:
    """A policy of one stage would replace a policy of all, and leave the others without any; `auto` is none."""
    value = OmegaConf.select(base, _POLICIES, throw_on_missing=False)
    if key.startswith(f"{_POLICIES}.") and isinstance(value, str) and value not in ("none", "auto"):
        stage = key.removeprefix(f"{_POLICIES}.")
        yield f"{key}: one policy, {value}, is set for all; give all in one: {_POLICIES}={{{stage}: ..., ...}}"


def _key_and_value(override: Override) -> tuple[str, str]:
    key, _, value = (override.input_line or "").partition("=")
    return key.lstrip("+~").strip(), value


def _base(request: Request, choices: list[Override]) -> DictConfig:
    """The composition that the overrides of values apply to; the plain defaults if there is none."""
    try:
        return request.compose([o.input_line or "" for o in choices])
    except CONFIG_ERRORS:
        return request.compose([])
