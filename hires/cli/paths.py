"""Values of keys that are paths: a folder may have a number as its name, which YAML and Hydra read as one."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from hires.errors import ConfigError

_KEYS = (
    *("run", "checkpoint", "source", "out"),
    *("run_dir", "resume", "run_config", "init_from", "data_dir"),
    *("data.root", "data.cache_dir", "memory.plan", "memory.offload_dir", "backbone.weights"),
)
_FEW = ("resume", "run_config", "init_from")
"""Keys of which an empty text would be taken for null."""


def as_texts(cfg: DictConfig) -> None:
    """Makes whole numbers texts, in place. Raises ConfigError for other values that are no text."""
    for key in _KEYS:
        parent, _, name = key.rpartition(".")
        node = OmegaConf.select(cfg, parent) if parent else cfg
        if not isinstance(node, DictConfig) or name not in node or OmegaConf.is_interpolation(node, name):
            continue
        value: Any = None if OmegaConf.is_missing(node, name) else node[name]
        if isinstance(value, int) and not isinstance(value, bool):
            node[name] = str(value)
        elif value is not None and not isinstance(value, str):
            raise ConfigError(
                f"{key}: got {value}, allowed: a path; a name that reads as another value needs "
                f"two pairs of quotes: \"{key}='...'\""
            )
        elif key in _FEW and value is not None and not value.strip():
            raise ConfigError(f"{key}: got an empty text, allowed: a path, or null")
