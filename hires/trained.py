"""What a run has learnt: how it sees pixels, and its task with the weights of a checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from hires.data.pixel_statistics import assumed
from hires.engine.checkpointer import read, weights
from hires.interfaces import DataError, Normalization
from hires.learner import make_task
from hires.recipe import Recipe
from hires.run_statistics import normalization_of_run


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
