"""Configurations as dotted keys and values, and values as text."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

import yaml
from omegaconf import DictConfig, OmegaConf

Kind = TypeVar("Kind")


def plain(cfg: Any) -> Any:
    """A configuration as dicts and lists, interpolations as they are written; plain values stay."""
    return OmegaConf.to_container(cfg, resolve=False) if OmegaConf.is_config(cfg) else cfg


def settings_of(kind: type[Kind], cfg: DictConfig) -> Kind:
    """Settings of a class, out of the keys at the top of a configuration. Raises SettingError."""
    values = {field.name: cfg[field.name] for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: _resolved(value) for name, value in values.items()})


def _resolved(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def leaves(cfg: Any, whole: Collection[str] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; lists, empty mappings and the mappings of the keys `whole` are values."""
    for key, value in plain(cfg).items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and name not in whole:
            yield from leaves(value, whole, f"{name}.")
        else:
            yield name, value


def keys_below(cfg: Any, prefix: str = "") -> dict[str, None]:
    """Every dotted key, in order, places in lists too; without those that Hydra itself reads."""
    found: dict[str, None] = {}
    for key, child in _items(plain(cfg)):
        if str(key).startswith("_") or (not prefix and key == "hydra"):
            continue
        found[f"{prefix}{key}"] = None
        found.update(keys_below(child, f"{prefix}{key}."))
    return found


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def flow(value: Any) -> str:
    """A value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()
