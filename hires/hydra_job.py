"""What Hydra knows of the job that runs; nothing outside of hydra.main, as in a notebook."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode


def overrides() -> list[str]:
    """As they were given, of this job of a sweep."""
    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []


def said(words: Iterable[str] | None = None) -> list[str]:
    """The keys and groups that some overrides name; those of the command line, where none are given."""
    return [word.partition("=")[0].lstrip("+~") for word in (overrides() if words is None else words)]


def choices() -> dict[str, Any]:
    """The option that was chosen of each group."""
    return dict(HydraConfig.get().runtime.choices) if HydraConfig.initialized() else {}


def folder_in_sweep() -> Path | None:
    """The directory of this job of a sweep; None where there is no sweep."""
    if not HydraConfig.initialized() or HydraConfig.get().mode != RunMode.MULTIRUN:
        return None
    return Path(HydraConfig.get().sweep.dir) / str(HydraConfig.get().job.num)
