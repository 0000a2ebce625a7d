"""Opens a run for the commands on runs: recipe, how it sees pixels, task with the weights of a checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lightning_fabric import Fabric
from omegaconf import DictConfig

from hires import runs
from hires.data.pixel_statistics import assumed
from hires.engine.checkpointer import read, weights
from hires.engine.fabric import make_fabric
from hires.interfaces import DataError, Normalization
from hires.learner import make_task, move
from hires.recipe import Recipe, read_recipe
from hires.run_statistics import normalization_of_run


class OpenedRun(NamedTuple):
    """A run with what a command on runs gives."""

    run_dir: Path
    checkpoint: Path
    recipe: Recipe
    normalization: Normalization

    def task(self, classes: Sequence[str]) -> Any:
        """Its task on the CPU. Raises DataError as `trained_task` does."""
        return trained_task(self.recipe, classes, self.normalization, self.checkpoint)

    def placed_task(self, classes: Sequence[str]) -> tuple[Any, Fabric]:
        """Its task on the device of the recipe, and what runs it there."""
        fabric = make_fabric(self.recipe.trainer.accelerator, self.recipe.trainer.precision)
        task = self.task(classes)
        move(task, self.recipe, fabric)
        return task, fabric


def open_run(given: DictConfig, *, accelerator: str | None = None) -> OpenedRun:
    """The run and the checkpoint that a command names, with its values where they are not null.

    `accelerator` takes the place of the run's. Raises DataError for what is no run, ConfigError for wrong values.
    """
    run_dir = runs.existing_run(str(given.run))
    kept = runs.load_config(run_dir)
    changed = runs.with_given(kept.copy(), given)
    if accelerator is not None:
        changed.trainer.accelerator = accelerator
    recipe = read_recipe(changed)
    checkpoint = runs.checkpoint_path(run_dir, given.checkpoint)
    return OpenedRun(run_dir, checkpoint, recipe, kept_normalization(run_dir, kept, recipe))


def kept_normalization(run_dir: Path, cfg: DictConfig, recipe: Recipe) -> Normalization:
    """How a run normalises pixels. Raises DataError where it lacks the file that says so."""
    found = normalization_of_run(run_dir, cfg, recipe.data.shown_channels)
    return found or assumed(recipe.data, np.dtype(np.uint8))  # made by a version that took 8-bit images alone


def trained_task(recipe: Recipe, classes: Sequence[str], normalization: Normalization, checkpoint: Path) -> Any:
    """The task of a run, on the CPU, with the weights that a checkpoint is evaluated with.

    Raises DataError for a file that is no checkpoint, or one of another model.
    """
    state = read(checkpoint)
    task = make_task(recipe, tuple(classes), training=None, load_pretrained=False, normalization=normalization)
    try:
        task.load_state_dict(weights(state))
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{checkpoint}: has no weights ({error}); give a checkpoint of a run") from error
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{checkpoint}: does not fit the run's configuration ({reason})") from error
    return task
