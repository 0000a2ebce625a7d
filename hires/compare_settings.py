"""What `hires compare` sets side by side: settings by name, which errors are to name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from omegaconf import DictConfig

from hires.errors import ConfigError


class Setting(NamedTuple):
    """What is compared: the overrides that make it, and the configuration that they give."""

    overrides: list[str]
    cfg: DictConfig


@contextmanager
def named(name: str) -> Iterator[None]:
    """Errors within the block name the setting."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"settings.{name}: {error}") from error
