"""Checks of a composed configuration that need no torch: known keys, missing values, interpolations.

The schema is the command's own YAML file and, for mappings with `_target_`, what the target takes
(see instantiate.check): a mistyped key is refused wherever it comes from.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hires.cli.errors import readable
from hires.cli.help import comments_of
from hires.cli.launchers import check as check_launcher
from hires.cli.paths import as_texts
from hires.config_values import plain
from hires.errors import ConfigError
from hires.instantiate import ALLOWING, TARGET, allowed_on_command_line, missing_keys, unknown_key
from hires.request import Request

_HYDRA_OWN = re.compile(r"(hydra\._internal\.core_plugins|hydra_plugins)\.[\w.]+(Launcher|Sweeper)")
"""Launchers and sweepers of Hydra and its plugins."""

_OF_WHO_TYPES = ("job.env_set", "job.chdir", "output_subdir", "run.dir")
"""Keys of hydra by which a file could have other programs loaded, or something written elsewhere."""

_EXAMPLES = {
    "run": "run=runs/demo/2025-01-31_12-00-00",
    "data.root": "data.root=/data/vessels",
    "data.classes": "'data.classes={background: 0, vessel: 255}'",
}


def check(cfg: DictConfig, request: Request, node: Any = None) -> None:
    """Raises ConfigError for the first key or value that cannot be right, whatever it is used for.

    `node` is hydra's own, where the configuration is not that of the running job.
    """
    as_texts(cfg)
    own = plain(cfg)
    schema = _schema(request, request.config_name)
    if schema:
        check_keys(own, schema, _groups(node or HydraConfig.get()))
    missing = next(missing_keys(own), None)
    if missing:
        comment = comments_of(request).get(missing, "")
        example = _EXAMPLES.get(missing, f"{missing}=...")
        raise ConfigError(f"{missing}: must be given, for example {example}{f' ({comment})' if comment else ''}")
    check_interpolations(cfg)


def check_hydra(request: Request) -> DictConfig:
    """The configuration without what is swept over, with hydra's node.

    Raises ConfigError if a file makes Hydra itself call or write something: callbacks, launchers, loggers.
    """
    plain_overrides = [o.input_line or "" for o in readable(request) if not o.is_sweep_override()]
    composed, shipped = request.compose(plain_overrides), request.compose([]).hydra
    node = composed.hydra
    check_launcher(composed, request)
    for part in ("job_logging", "hydra_logging"):
        if _resolved(node[part]) != _resolved(shipped[part]):
            raise ConfigError(f"hydra.{part}: cannot be changed, hires does its own logging")
    typed = [text for text in plain_overrides if text.lstrip("+~").startswith("hydra.")]
    changed = [key for key in _OF_WHO_TYPES if OmegaConf.select(node, key) != OmegaConf.select(shipped, key)]
    said = request.compose(typed).hydra if changed else shipped
    for key in changed:
        if OmegaConf.select(node, key) != OmegaConf.select(said, key):
            raise ConfigError(f"hydra.{key}: cannot be changed by a file; give it on the command line")
    trusted = tuple(f"{prefix.rstrip('.')}." for prefix in allowed_on_command_line())
    for part in ("callbacks", "launcher", "sweeper"):
        for key, name in _called(_resolved(node[part]), f"hydra.{part}"):
            if not (_HYDRA_OWN.fullmatch(str(name)) or str(name).startswith(trusted)):
                raise ConfigError(f"{key}: {name!r} is not allowed; {ALLOWING}")
    return composed


def _resolved(node: Any) -> Any:
    """A node as plain values: what an interpolation would make counts, not how it is written."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def _called(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Keys whose values are names of what hydra would call."""
    items = node.items() if isinstance(node, dict) else enumerate(node or [])
    for key, value in items:
        if key == TARGET and value is not None:
            yield f"{path}.{key}", value
        if isinstance(value, (dict, list)):
            yield from _called(value, f"{path}.{key}")


def check_keys(given: dict[Any, Any], schema: dict[Any, Any], groups: set[str]) -> None:
    """Top-level keys are those of the command's file and its groups; groups hold parts with `_target_`."""
    own = {key: value for key, value in schema.items() if key not in ("defaults", "hydra")}
    for key, value in given.items():
        if key not in own and key not in groups:
            raise ConfigError(unknown_key("", str(key), sorted({*own, *groups})))
        if not isinstance(value, dict) or TARGET in value:
            continue
        for name, child in value.items():
            if isinstance(own.get(key), dict) and own[key] and name not in own[key]:
                raise ConfigError(unknown_key(str(key), str(name), list(own[key])))
            if key not in own and child is not None and not (isinstance(child, dict) and TARGET in child):
                raise ConfigError(f"{key}.{name}: got {child!r}, allowed: a mapping with {TARGET}")
    for key in [*own, *_chosen_groups(schema)]:
        if key not in given:
            raise ConfigError(f"{key}: has been removed, but is needed")


def check_interpolations(cfg: DictConfig) -> None:
    """Raises ConfigError that names the key whose `${...}` leads nowhere."""
    try:
        OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{error.full_key}: {str(error).splitlines()[0]}") from error


def _schema(request: Request, config: str) -> dict[Any, Any]:
    """A file's keys and defaults, with those of the files that its defaults name without a group."""
    path = request.file(config)
    own = OmegaConf.to_container(OmegaConf.load(path), resolve=False) if path else None
    if not isinstance(own, dict):
        return {}
    defaults = own.get("defaults", [])
    parts = [_schema(request, entry) for entry in defaults if isinstance(entry, str) and entry != "_self_"]
    joined = [entry for part in parts for entry in part.get("defaults", [])]
    return {
        **{key: value for part in parts for key, value in part.items()},
        **own,
        "defaults": [*joined, *defaults],
    }


def _groups(hydra: Any) -> set[str]:
    """Groups that the files choose from; one that was added with + on the command line is no key."""
    overrides = cast(list[str], OmegaConf.to_container(hydra.overrides.task, resolve=False))
    parsed = OverridesParser.create().parse_overrides(overrides)
    added = {o.key_or_group for o in parsed if o.is_add() and not isinstance(o.value(), dict)}
    chosen = {str(group) for group, option in hydra.runtime.choices.items() if option}
    return {group for group in chosen - added - {"experiment"} if "/" not in group}


def _chosen_groups(schema: dict[Any, Any]) -> list[str]:
    """Groups in a file's defaults list that are neither optional nor overrides of another file's choice."""
    entries = [entry for entry in schema.get("defaults", []) if isinstance(entry, dict)]
    return [str(key) for entry in entries for key in entry if " " not in str(key) and "/" not in str(key)]
