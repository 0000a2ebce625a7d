"""The settings that `hires compare` sets side by side: read, composed and checked, without torch."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from hires import cli_check, cli_errors, cli_repeat
from hires.cli_compose import Request
from hires.errors import ConfigError, HiresError

DEFAULT = {name: [f"memory.activation_checkpointing={name}"] for name in ("none", "full")}
"""What is compared when `settings` is null."""

COMMON = (
    "settings",
    "steps",
    "evaluate",
    "measure_memory",
    "run_dir",
    "runs",
    "log_level",
    "resume",
    "allow_targets",
)
"""Keys of the whole comparison, which no setting can have otherwise."""

EXAMPLE = "'settings={none: [], full: [memory.activation_checkpointing=full]}'"


class Setting(NamedTuple):
    """What is compared: the overrides that make it, and the configuration that they give."""

    overrides: list[str]
    cfg: DictConfig


def compose_settings(cfg: DictConfig, request: Request) -> dict[str, Setting]:
    """The settings by name, the running job's overrides first in each.

    Raises ConfigError that names the setting and says what the command line would say of its overrides.
    """
    job = list(HydraConfig.get().overrides.task)
    given = OmegaConf.to_container(cfg.settings) if OmegaConf.is_config(cfg.settings) else cfg.settings
    composed = {}
    for name, overrides in _read(given).items():
        with named(name):
            _check_keys(overrides)
            flags = Namespace(**{**vars(request.flags), "overrides": [*job, *overrides], "multirun": False})
            composed[name] = Setting(overrides, composed_alone(replace(request, flags=flags))[0])
    return composed


@contextmanager
def named(name: str) -> Iterator[None]:
    """Errors within the block name the setting."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"settings.{name}: {error}") from error


def _read(given: Any) -> dict[str, list[str]]:
    if given is None:
        return DEFAULT
    if not isinstance(given, dict) or len(given) < 2:
        what = f"{len(given)} of them" if isinstance(given, dict) else repr(given)
        raise ConfigError(f"settings: got {what}, allowed: null, or two and more by name, for example {EXAMPLE}")
    for name, overrides in given.items():
        if not isinstance(overrides, list) or not all(isinstance(text, str) for text in overrides):
            raise ConfigError(f"settings.{name}: got {overrides!r}, allowed: a list of overrides, as in {EXAMPLE}")
    return {str(name): overrides for name, overrides in given.items()}


def _check_keys(overrides: list[str]) -> None:
    for text in overrides:
        key = text.partition("=")[0].strip().lstrip("+~")
        if key.partition(".")[0] in (*COMMON, "hydra"):
            raise ConfigError(f"{key}: is the same for all settings; give it on the command line itself")


def composed_alone(request: Request) -> tuple[DictConfig, Any]:
    """The checked configuration of a request outside of hydra.main, and hydra's own node. Raises ConfigError."""
    try:
        cli_errors.check_overrides(request)
        request = cli_repeat.loosened(request)
        cfg = request.compose(request.overrides)
    except HiresError:
        raise
    except cli_errors.CONFIG_ERRORS as error:
        raise ConfigError(cli_errors.explain(error, request)) from error
    with open_dict(cfg):
        node = cfg.pop("hydra")
    cfg = cli_repeat.repeated(cfg, node, request)
    cli_check.check(cfg, request, node)
    return cfg, node
