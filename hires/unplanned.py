"""Where no plan is searched for: what `auto` stands for then, and what is said of it."""

import logging

from omegaconf import DictConfig

from hires.memory.budget import UnknownBudget
from hires.memory.policies import AUTO
from hires.memory.simulate_values import SimulationError
from hires.planning import budget_of
from hires.recipe import USUAL_SIDE, Recipe

log = logging.getLogger(__name__)

UNPLANNABLE = (SimulationError, UnknownBudget)
"""Why a plan may not be found though nothing is wrong with the training."""


def settled(cfg: DictConfig) -> DictConfig:
    """A configuration with values where it says `auto`: 512 pixels, the whole batch, nothing recomputed.

    One with a goal (memory.maximize) stays as it is, as there is nothing to stand for that.
    """
    if cfg.memory.maximize is not None:
        return cfg
    cfg = cfg.copy()
    if cfg.image_size == AUTO:
        cfg.image_size = USUAL_SIDE
    if cfg.micro_batch_size == AUTO:
        cfg.micro_batch_size = None
    if cfg.memory.activation_checkpointing == AUTO:
        cfg.memory.activation_checkpointing = "none"
    return cfg


def tell_settled(command: str, *cfgs: DictConfig) -> None:
    """Says what a command that searches for nothing takes for an image size of `auto`."""
    if any(cfg.image_size == AUTO and settled(cfg).image_size != AUTO for cfg in cfgs):
        log.info(
            "image_size: auto is what a search finds, and `hires %s` makes none: taken as %d; give another by "
            "image_size=, or the one that `hires autobatch` finds",
            command,
            USUAL_SIDE,
        )


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
