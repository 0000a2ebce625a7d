"""Trainings from a configuration to the step before the first: on data, or on examples of the worst of it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from hires.applying import with_policies
from hires.data.loader import StepSampler, make_loader
from hires.data.pixel_statistics import normalization_of
from hires.data.windows import windows_in_epoch
from hires.engine.fabric import make_fabric
from hires.engine.recovery import Ladder
from hires.engine.step import Updater
from hires.interfaces import ImageSource, MemoryPlan, Normalization, Sample
from hires.learner import Learner, make_learner, make_learner_of, make_task
from hires.ops.random_state import seed_everything
from hires.recipe import Recipe
from hires.wiring import make_dataset, make_evaluation, make_update

_SAMPLES = ("data", "augmentation", "image_size", "batch_size", "seed")
"""What samples follow from, besides the padding of the task."""


@dataclass(frozen=True)
class Material:
    """What a training is made of: its recipe, and images, which settings with the same data share."""

    recipe: Recipe
    source: ImageSource
    key: str  # the same where the samples are the same

    @cached_property
    def _windows(self) -> int:
        return windows_in_epoch(self.source, self.recipe.image_size, self.recipe.data)

    @cached_property
    def normalization(self) -> Normalization:
        """How the images are normalised."""
        return normalization_of(self.recipe.data, self.source)

    @property
    def max_steps(self) -> int:
        """Optimizer steps of the whole training, which the learning rate follows."""
        return self.recipe.trainer.steps(-(-self._windows // self.recipe.top.batch_size))

    def batches(self, steps: int) -> Iterator[list[Sample]]:
        """The samples of the first optimizer steps, made in this process when they are asked for."""
        sampler = StepSampler(self._windows, self.recipe.top.batch_size, 0, steps)
        dataset = make_dataset(self.recipe, self.source, self.normalization)
        return iter(make_loader(dataset, sampler, workers=0, pin_memory=False))


def open_material(recipe: Recipe, cfg: DictConfig, opened: dict[str, ImageSource]) -> Material:
    """The recipe of a configuration with its images; images opened before are taken from `opened`."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    key = json.dumps([*(plain[part] for part in _SAMPLES), recipe.task.padding])
    if key not in opened:
        opened[key] = recipe.data.source("train")
    return Material(recipe, opened[key], key)


@dataclass(frozen=True)
class Training:
    """A training before its first step."""

    recipe: Recipe
    learner: Learner
    update: Updater
    plan: MemoryPlan

    def wait(self) -> None:
        """Returns when the device has done all that it was given."""
        if self.learner.fabric.device.type == "cuda":
            torch.cuda.synchronize(self.learner.fabric.device)

    def parameters(self) -> dict[str, Tensor]:
        return dict(self.learner.task.named_parameters())

    def buffers(self) -> dict[str, Tensor]:
        return dict(self.learner.task.named_buffers())

    def gradients(self) -> dict[str, Tensor]:
        """The gradients that are there, without the factor by which half precision scales them."""
        gradients = {name: p.grad for name, p in self.parameters().items() if p.grad is not None}
        scaler = getattr(self.learner.fabric.strategy.precision, "scaler", None)
        if scaler is None:
            return gradients
        return {name: gradient / scaler.get_scale() for name, gradient in gradients.items()}

    def metrics(self, progress: Callable[[int, int], None]) -> dict[str, float]:
        """What the validation images give."""
        evaluation = make_evaluation(self.recipe, self.recipe.data.source("val"), self.learner.fabric, progress)
        return evaluation(self.learner.average.module)


def begin_on_examples(recipe: Recipe, classes: tuple[str, ...], normalization: Normalization) -> Training:
    """A training before its first step, from random weights, that needs no data."""
    seed_everything(recipe.top.seed)
    plan, fabric = recipe.given_plan(), make_fabric(recipe.trainer.accelerator, recipe.trainer.precision)
    task = make_task(recipe, classes, training=None, load_pretrained=False, normalization=normalization)
    learner = make_learner_of(recipe, fabric, task)
    update = make_update(recipe, learner, fixed(plan), recipe.trainer.steps(1))
    return Training(recipe, learner, update, with_policies(recipe, learner, plan, list))


def begin(material: Material, samples: list[Sample]) -> Training:
    """A training before its first step, whose samples are needed for `memory.verify`."""
    recipe, plan = material.recipe, material.recipe.given_plan()
    fabric = make_fabric(recipe.trainer.accelerator, recipe.trainer.precision)
    learner = make_learner(recipe, material.source, fabric, resumed=False, normalization=material.normalization)
    update = make_update(recipe, learner, fixed(plan), material.max_steps)
    return Training(recipe, learner, update, with_policies(recipe, learner, plan, lambda: samples))


def fixed(plan: MemoryPlan) -> Ladder:
    """A plan without its rungs: this plan is what is measured or compared, and a lack of memory is an error."""
    return Ladder(replace(plan, rungs=()))
