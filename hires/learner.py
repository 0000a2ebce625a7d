"""What learns: a task with its averaged weights and its optimizer."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from hires.engine.checkpointer import Checkpointer, Stateful, load_matching, read, weights
from hires.engine.ema import Averaged, make_average
from hires.engine.optimizer import ResumableOptimizer
from hires.engine.progress import Progress
from hires.engine.ranks import Alone, Ranks
from hires.engine.recovery import Ladder
from hires.engine.sharded import Gathered, ShardedAverage
from hires.interfaces import ConfigError, ImageSource, Normalization
from hires.ops.random_state import seed_everything
from hires.recipe import Recipe, check_multiple
from hires.runs import weights_path

_ALONE = Alone()


def make_task(
    recipe: Recipe,
    classes: tuple[str, ...],
    *,
    training: ImageSource | None,
    load_pretrained: bool,
    normalization: Normalization | None = None,
) -> Any:
    """The task of a recipe, on the CPU; with pretrained weights unless a checkpoint replaces them anyway.

    `training` are the images to learn from, None when nothing is learnt.
    """
    settings = recipe.backbone
    brings_statistics = settings.pretrained or settings.weights is not None
    if not load_pretrained:
        settings = replace(settings, pretrained=False, weights=None)
    count = recipe.model.num_classes or len(classes)
    if count != len(classes):
        raise ConfigError(
            f"model.num_classes: got {count}, but the data has {len(classes)}: {', '.join(classes)}; "
            "leave it out, or correct data.classes"
        )
    network = recipe.model.build(settings.build(recipe.image_size), count, pretrained=brings_statistics)
    check_multiple("image_size", recipe.image_size, network.stride)
    check_multiple(f"evaluation.{recipe.window_key}", recipe.window, network.stride)
    network.check(recipe.trials(training is not None))
    task = recipe.task.build(network, count, training)
    if normalization is not None:
        task.normalize.use(normalization)
    return task


@dataclass(frozen=True)
class Learner:
    """What learns: the parts of a training that a checkpoint restores, on their device."""

    fabric: Fabric
    task: Any  # a Task that is a module
    average: Averaged
    optimizer: Any
    progress: Progress

    def level(self, ranks: Ranks) -> None:
        """All processes get the statistics of the main one, which BatchNorm has of each process's own samples."""
        ranks.spread_buffers(self.task, self.average.module)

    def checkpointer(
        self, folder: Path, ladder: Ladder, ranks: Ranks = _ALONE, journal: Stateful | None = None
    ) -> Checkpointer:
        parts: dict[str, Any] = {
            "task": self.task,
            "ema": self.average,
            "optimizer": ResumableOptimizer(self.optimizer),
            "precision": self.fabric.strategy.precision,
            "progress": self.progress,
            "plan": ladder,
            **({"journal": journal} if journal else {}),
        }
        if isinstance(self.average, ShardedAverage):
            parts |= {name: Gathered(parts[name], ranks.main) for name in ("task", "ema", "optimizer")}
        return Checkpointer(folder, parts, ["plan", "journal"], ranks, partial(self.level, ranks))


def make_learner(
    recipe: Recipe, source: ImageSource, fabric: Fabric, *, resumed: bool, normalization: Normalization
) -> Learner:
    """A learner before its first step; a resumed one still lacks the state of its checkpoint."""
    seed_everything(recipe.top.seed)
    fresh = not resumed and not recipe.top.init_from
    task = make_task(recipe, source.classes, training=source, load_pretrained=fresh, normalization=normalization)
    if recipe.top.init_from and not resumed:
        load_matching(task, weights(read(weights_path(recipe.top.init_from))), recipe.top.init_from)
    return make_learner_of(recipe, fabric, task)


def make_learner_of(recipe: Recipe, fabric: Fabric, task: Any) -> Learner:
    """A learner of a task, which moves to the device, before its first step."""
    move(task, recipe, fabric)
    average = make_average(task, recipe.trainer.ema_decay)
    if recipe.sharded:
        average = ShardedAverage(average, task)
    optimizer = fabric.setup_optimizers(recipe.optimizer.build(task))
    return Learner(fabric, task, average, optimizer, Progress())


def move(task: Any, recipe: Recipe, fabric: Fabric) -> None:
    """Brings a task to its device, in the memory format of the trainer."""
    fabric.to_device(task)
    if recipe.trainer.channels_last:
        task.to(memory_format=torch.channels_last)
