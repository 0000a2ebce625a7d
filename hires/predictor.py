"""A run's network, ready for images that no data set lists."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from omegaconf import OmegaConf

from hires.data.cache import NoCache
from hires.data.file_source import FileSource
from hires.data.pixel_statistics import check_images, check_type
from hires.engine.evaluate import FittingViews, as_it_is, predict
from hires.engine.fabric import Place
from hires.interfaces import Normalization
from hires.models.statistics import image_statistics
from hires.recipe import Recipe
from hires.run_classes import Classes, classes_of_run
from hires.tasks.probabilities import WithProbabilities
from hires.trained import open_run
from hires.wiring import make_views


@dataclass(frozen=True)
class Predictor:
    """Predicts images as `hires evaluate` does: the same pixels, views, weights and merging."""

    run_dir: Path
    checkpoint: Path
    recipe: Recipe
    classes: Classes
    normalization: Normalization
    task: Any  # on its device, in evaluation mode
    fabric: Fabric
    views: FittingViews

    @property
    def segments(self) -> bool:
        """Whether its parts are rows of a mask (LabelRows), and not Detections of the whole image."""
        return getattr(self.recipe.task, "kind", None) == "segmentation"

    def image(self, root: Path, name: str) -> Any:
        """An image file as the network is shown it, (H, W, C), or what gives slices of one that is very large.

        Raises DataError for a file that is broken, or has other bands or pixels than the run learns from.
        """
        source = FileSource(root, [name], self.recipe.data.pixel_rules(), NoCache())
        check_images(source)
        check_type(source, self.normalization)
        return source.pixels(0, None)

    @torch.inference_mode()
    def parts(self, image: np.ndarray, *, probabilities: bool = False) -> Iterator[Any]:
        """What the task says of an image (H, W, C), from the top: LabelRows or ProbabilityRows, or one Detections.

        Raises TrainingError when memory runs out with one view at a time.
        """
        settle: Any = image_statistics if self.recipe.evaluation.statistics == "image" else as_it_is
        task: Any = WithProbabilities(self.task) if probabilities else self.task

        def settled(_: Any, look: Callable[[], None]) -> AbstractContextManager[None]:
            made: AbstractContextManager[None] = settle(self.task, look)
            return made

        place = Place(self.fabric.device, self.recipe.trainer.channels_last)
        parts_of = partial(predict, task, image, place=place, autocast=self.fabric.autocast, settle=settled)
        yield from self.views.parts(parts_of, image.shape[:2])


def load_predictor(
    run: str | Path,
    checkpoint: str = "best",
    *,
    data_dir: str | None = None,
    data: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
) -> Predictor:
    """The network of a run with the weights of a checkpoint: best, last, or a path.

    The mappings are values of the run's settings that are to be others; None in them changes nothing. Raises
    DataError for what is no run or checkpoint, ConfigError for wrong values.
    """
    groups = {"data": data, "evaluation": evaluation, "trainer": trainer}
    named = {"run": str(run), "checkpoint": str(checkpoint), "data_dir": data_dir}
    opened = open_run(OmegaConf.create({**named, **{name: dict(each or {}) for name, each in groups.items()}}))
    run_dir, path, recipe, normalization = opened
    classes = classes_of_run(run_dir, recipe.data)
    task, fabric = opened.placed_task(classes.names)
    task.eval()
    return Predictor(run_dir, path, recipe, classes, normalization, task, fabric, FittingViews(make_views(recipe)))
