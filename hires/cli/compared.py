"""The settings that `hires compare` sets side by side: read, composed and checked, without torch."""

from argparse import Namespace
from dataclasses import replace
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from hires.cli.compose import composed
from hires.cli.repeat import KEY, OF_THE_COMMAND
from hires.compare_settings import Setting, named
from hires.errors import ConfigError
from hires.quotes import quote_text
from hires.request import Request

_DEFAULT = {name: [f"memory.activation_checkpointing={name}"] for name in ("none", "full")}
"""What is compared when `settings` is null."""

COMMON = tuple(key for key in OF_THE_COMMAND if key != KEY)
"""Keys of the whole comparison, which no setting can have otherwise."""

_EXAMPLE = "'settings={none: [], full: [memory.activation_checkpointing=full]}'"


def compose_settings(cfg: DictConfig, request: Request) -> dict[str, Setting]:
    """The settings by name, the running job's overrides first in each.

    Raises ConfigError that names the setting and says what the command line would say of its overrides.
    """
    job = list(HydraConfig.get().overrides.task)
    given = OmegaConf.to_container(cfg.settings) if OmegaConf.is_config(cfg.settings) else cfg.settings
    settings = {}
    for name, overrides in _read(given).items():
        with named(name):
            _check_keys(overrides)
            words = [*job, *map(quote_text, overrides)]
            flags = Namespace(**{**vars(request.flags), "overrides": words, "multirun": False})
            settings[name] = Setting(overrides, composed(replace(request, flags=flags))[0])
    return settings


def _read(given: Any) -> dict[str, list[str]]:
    if given is None:
        return _DEFAULT
    if not isinstance(given, dict) or len(given) < 2:
        what = f"{len(given)} of them" if isinstance(given, dict) else repr(given)
        raise ConfigError(f"settings: got {what}, allowed: null, or two and more by name, for example {_EXAMPLE}")
    for name, overrides in given.items():
        if not isinstance(overrides, list) or not all(isinstance(text, str) for text in overrides):
            raise ConfigError(
                f"settings.{name}: got {overrides!r}, allowed: a list of overrides, as in {_EXAMPLE}"
            )
    return {str(name): overrides for name, overrides in given.items()}


def _check_keys(overrides: list[str]) -> None:
    for text in overrides:
        key = text.partition("=")[0].strip().lstrip("+~")
        if key.partition(".")[0] in (*COMMON, "hydra"):
            raise ConfigError(f"{key}: is the same for all settings; give it on the command line itself")
