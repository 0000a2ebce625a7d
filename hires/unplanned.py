"""Where no plan is searched for: what `auto` stands for then, and what is said of it."""

import logging
from collections.abc import Collection
from typing import Any

from omegaconf import DictConfig, OmegaConf

from hires.memory.budget import UnknownBudget
from hires.memory.policies import AUTO
from hires.memory.simulate_values import SimulationError
from hires.planning import budget_of
from hires.recipe import USUAL_SIDE, Recipe

log = logging.getLogger(__name__)

UNPLANNABLE = (SimulationError, UnknownBudget)
"""Why a plan may not be found though nothing is wrong with the training."""


_INSTEAD: dict[str, Any] = {
    "image_size": USUAL_SIDE,
    "micro_batch_size": None,
    "memory.activation_checkpointing": "none",
}
"""What stands for `auto`: 512 pixels, the whole batch, nothing recomputed."""


def settled(cfg: DictConfig, said: Collection[str] = ()) -> DictConfig:
    """A configuration with values where it says `auto`, but for keys and groups that were `said`.

    One with a goal (memory.maximize) stays as it is, as there is nothing to stand for that.
    """
    if cfg.memory.maximize is not None:
        return cfg
    cfg = cfg.copy()
    for key in _replaced(cfg, said):
        OmegaConf.update(cfg, key, _INSTEAD[key])
    if cfg.memory.budget == AUTO and "memory.budget" not in said:
        cfg.memory.budget = None
    return cfg


def _replaced(cfg: DictConfig, said: Collection[str]) -> list[str]:
    given = {*said, *(["memory.activation_checkpointing"] if "memory" in said else [])}
    return [key for key in _INSTEAD if key not in given and OmegaConf.select(cfg, key) == AUTO]


def settled_for(command: str, cfg: DictConfig, said: Collection[str]) -> DictConfig:
    """The same for a command that searches for nothing, which says so where the image size is to be found."""
    replaced = _replaced(cfg, said) if cfg.memory.maximize is None else []
    if "image_size" in replaced:
        log.info(
            "%s: auto is what a search finds, and `hires %s` makes none: taken as %s; give others, or those that "
            "`hires autobatch` finds",
            ", ".join(replaced),
            command,
            ", ".join(_shown(key) for key in replaced),
        )
    return settled(cfg, said)


def _shown(key: str) -> str:
    return "null (the whole batch)" if _INSTEAD[key] is None else str(_INSTEAD[key])


def go_on_without(cfg: DictConfig, why: str) -> DictConfig:
    """The configuration of a training for which no plan can be found, and a line that says so."""
    cfg = settled(cfg)
    log.warning(
        "No plan is searched for (%s): training with image_size=%s, micro_batch_size=%s and policies %s; units "
        "are recomputed and micro-batches split only when memory runs out",
        why,
        cfg.image_size,
        "null (the whole batch)" if cfg.micro_batch_size is None else cfg.micro_batch_size,
        cfg.memory.activation_checkpointing,
    )
    return cfg


def known_budget(recipe: Recipe) -> int | None:
    """Bytes that this process may reserve; None where that cannot be told and a training goes on without it."""
    try:
        return budget_of(recipe)
    except UnknownBudget:
        if not recipe.may_go_unplanned:
            raise
        return None
