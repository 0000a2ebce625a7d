"""Makes the parts of a training or evaluation from a recipe and connects them."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from hires.data.loader import StepLoader, StepSampler, make_loader
from hires.data.windows import ResizeDataset, TrainingDataset, WindowDataset
from hires.engine.checkpointer import Checkpointer, load_matching, read, weights
from hires.engine.ema import Averaged, make_average
from hires.engine.evaluate import FittingViews, as_it_is, evaluate
from hires.engine.fabric import Place
from hires.engine.optimizer import ResumableOptimizer
from hires.engine.progress import Progress
from hires.engine.recovery import Ladder, Recovering
from hires.engine.step import Updater, collate, train_step
from hires.engine.undo import Undo
from hires.engine.views import Views
from hires.interfaces import ConfigError, ImageSource, MemoryPlan, Normalization, Sample
from hires.memory.checkpointing import give_policies
from hires.memory.policies import policies_of
from hires.memory.rungs import rungs_of
from hires.memory.shapes import least_micro_batch
from hires.memory.units import find_units
from hires.memory.verify import differing_units
from hires.models.statistics import image_statistics
from hires.recipe import Recipe, check_multiple
from hires.runs import weights_path

log = logging.getLogger(__name__)

Evaluation = Callable[[Any], dict[str, float]]


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
        raise ConfigError(f"model.num_classes: got {count}, but the data has {len(classes)}: {', '.join(classes)}")
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

    def checkpointer(self, folder: Path, ladder: Ladder) -> Checkpointer:
        parts = {
            "task": self.task,
            "ema": self.average,
            "optimizer": ResumableOptimizer(self.optimizer),
            "precision": self.fabric.strategy.precision,
            "progress": self.progress,
            "plan": ladder,
        }
        return Checkpointer(folder, parts, optional=["plan"])


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
    optimizer = fabric.setup_optimizers(recipe.optimizer.build(task))
    return Learner(fabric, task, average, optimizer, Progress())


def with_policies(
    recipe: Recipe, learner: Learner, plan: MemoryPlan, samples: Callable[[], list[Sample]]
) -> MemoryPlan:
    """The plan with the policy of every unit, which the learner gets; it is verified before and compiled after.

    `samples` gives those that are verified with. The rungs get the policy of every unit too. Raises ConfigError
    for policies of units that the model does not have, and for units that do not do the same twice.
    """
    first = samples()[: plan.micro_batch_size] if recipe.memory.verify else []
    if first:
        check_units(recipe, learner, first)
    policies = apply_plan(recipe, learner, plan)
    units = find_units(learner.task, learner.task.stages())
    rungs = []
    for rung in plan.rungs:
        named = policies_of(rung.policies or recipe.memory.activation_checkpointing, units)
        rungs.append(replace(rung, policies={name: str(policy) for name, policy in named.items()}))
    return replace(plan, policies=policies, rungs=tuple(rungs))


def with_rungs(recipe: Recipe, learner: Learner, plan: MemoryPlan) -> MemoryPlan:
    """A plan that was given has its units recomputed first and then smaller micro-batches to fall back to."""
    if plan.rungs or plan.policies:  # one that was found, perhaps on its last rung
        return plan
    task = learner.task
    units = find_units(task, task.stages())
    named = policies_of(recipe.memory.activation_checkpointing, units)
    policies = {name: str(policy) for name, policy in named.items()}
    thrifty = {name: "full" if policy in ("none", "selective") else policy for name, policy in policies.items()}
    least = min(recipe.memory.min_micro_batch or least_micro_batch(task), plan.micro_batch_size)
    rungs = rungs_of(replace(plan, policies=policies), recipe.top.batch_size, thrifty, least)
    return replace(plan, rungs=rungs)


def apply_plan(recipe: Recipe, learner: Learner, plan: MemoryPlan) -> dict[str, str]:
    """Gives the learner the policies of a plan (those of the settings, where it has none) and returns them."""
    task, memory = learner.task, recipe.memory
    policies = give_policies(
        task,
        find_units(task, task.stages()),
        plan.policies or memory.activation_checkpointing,
        device=learner.fabric.device,
        offload_dir=memory.offload_dir,
    )
    if recipe.trainer.compile:
        task.compile()
    return policies


def exchange_plan(recipe: Recipe, learner: Learner, plan: MemoryPlan) -> None:
    """As `apply_plan`, in the middle of a training: what was compiled under other policies is forgotten."""
    if recipe.trainer.compile:
        torch.compiler.reset()
    apply_plan(recipe, learner, plan)


def check_units(recipe: Recipe, learner: Learner, samples: list[Sample]) -> None:
    """Runs every unit twice on samples. Raises ConfigError that names those that do not do the same twice."""
    task = learner.task
    place = Place(learner.fabric.device, recipe.trainer.channels_last)

    def run() -> None:
        with learner.fabric.autocast():
            task(place(collate(samples)), task.normalizers([sample.target for sample in samples]))

    units = find_units(task, task.stages())
    different = differing_units(task, units, run)
    if different:
        said = "; ".join(f"{unit} ({what})" for unit, what in different.items())
        fix = ", ".join(f"{unit}: none" for unit in different)
        raise ConfigError(f"memory.verify: run twice, these units do not do the same: {said}; give them {{{fix}}}")
    log.info("memory.verify: all %d units do the same twice", len(units))


def move(task: Any, recipe: Recipe, fabric: Fabric) -> None:
    """Brings a task to its device, in the memory format of the trainer."""
    fabric.to_device(task)
    if recipe.trainer.channels_last:
        task.to(memory_format=torch.channels_last)


def make_update(
    recipe: Recipe,
    learner: Learner,
    ladder: Ladder,
    max_steps: int,
    on_change: Callable[[MemoryPlan], Any] = lambda plan: None,
) -> Updater:
    """One optimizer step of a learner, as a function of the samples; continues where its progress stands.

    `on_change` is told the plan that is used from then on, when memory ran out and the ladder has rungs.
    """
    optimizer = learner.optimizer
    schedule = recipe.scheduler.build(optimizer.optimizer, max_steps)
    schedule.step_update(learner.progress.step)
    step = Recovering(
        make_step(recipe, learner),
        ladder,
        undo=Undo(learner.task, optimizer.optimizer, getattr(learner.fabric.strategy.precision, "scaler", None)),
        apply=partial(exchange_plan, recipe, learner),
        on_change=on_change,
        progress=learner.progress,
    )
    return Updater(
        task=learner.task,
        step=step,
        schedule=schedule.step_update,
        average=learner.average.update,
        progress=learner.progress,
    )


def make_step(recipe: Recipe, learner: Learner) -> Callable[..., dict[str, Tensor]]:
    """`train_step` of a learner, as a function of the samples and the size of a micro-batch."""
    fabric = learner.fabric
    return partial(
        train_step,
        learner.task,
        optimizer=learner.optimizer,
        place=Place(fabric.device, recipe.trainer.channels_last),
        autocast=fabric.autocast,
        backward=fabric.backward,
        clip=make_clip(recipe, learner),
    )


def make_clip(recipe: Recipe, learner: Learner) -> Callable[[], Any]:
    """Clips the gradients of a learner to the norm of the trainer, or does nothing."""
    limit = recipe.trainer.clip_grad_norm
    if not limit:
        return lambda: None
    clip = learner.fabric.clip_gradients
    return partial(clip, learner.task, learner.optimizer, max_norm=limit, error_if_nonfinite=False)


def make_dataset(recipe: Recipe, source: Any, normalization: Normalization) -> TrainingDataset:
    """The training samples of a source: windows, or whole images resized. Raises ConfigError for transforms."""
    data, augment = recipe.data, recipe.augmentation.of(normalization)
    settings = (source, recipe.image_size, data.window, augment, recipe.top.seed)
    if data.fit == "resize":
        return ResizeDataset(*settings, padding=recipe.task.padding)
    return WindowDataset(*settings, scale=data.scale, padding=recipe.task.padding, mosaic=data.mosaic)


def make_batches(dataset: TrainingDataset, sampler: StepSampler, recipe: Recipe, fabric: Fabric) -> StepLoader:
    """The optimizer batches of a training."""
    return make_loader(dataset, sampler, recipe.data.workers, pin_memory=fabric.device.type == "cuda")


def make_views(recipe: Recipe) -> Views:
    """How an evaluation shows whole images to the network."""
    settings = recipe.evaluation
    return Views(
        fit=settings.fit,
        size=recipe.window,
        overlap=settings.overlap,
        batch_size=settings.batch_size,
        tta=settings.tta,
        whole=settings.whole_image,
        padding=recipe.task.padding,
    )


def make_evaluation(
    recipe: Recipe, source: ImageSource, fabric: Fabric, progress: Callable[[int, int], None]
) -> Evaluation:
    """Evaluates a task on a source's whole images; `progress` is told the images done and their number."""
    settings = recipe.evaluation
    return partial(
        evaluate,
        source=source,
        evaluator=recipe.task.evaluator(source.classes),
        views=FittingViews(make_views(recipe)),
        place=Place(fabric.device, recipe.trainer.channels_last),
        autocast=fabric.autocast,
        settle=image_statistics if settings.statistics == "image" else as_it_is,
        progress=progress,
        skip=recipe.data.on_error == "skip",
    )


def seed_everything(seed: int) -> None:
    """Seeds the global generators: they decide initial weights, dropout and drop path."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
