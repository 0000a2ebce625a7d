"""A training step of a recipe on tensors without memory, under any policies."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from hires.engine.ema import make_average
from hires.engine.fabric import Place, autocast_of
from hires.engine.share import Rehearsal
from hires.engine.step import Share, Whole, accumulate, train_step
from hires.examples import Examples
from hires.interfaces import Batch, ConfigError, Sample
from hires.learner import make_task
from hires.memory.allocator import AllocatorSettings
from hires.memory.checkpointing import apply_policies, remove_policies
from hires.memory.meter import Workspace
from hires.memory.policies import Policies
from hires.memory.profile import HALF_ON_CPU, MemoryProfile
from hires.memory.shapes import least_micro_batch
from hires.memory.simulate import Simulation
from hires.memory.simulate_offload import SimulatedOffload
from hires.memory.simulate_values import SimulationError
from hires.memory.timeline import BUCKETS
from hires.memory.units import Unit, find_units
from hires.memory.workspace import MeasuredWorkspace, Operation, measure
from hires.memory.workspace_cuda import CudaWorkspace
from hires.ops.zero_weights import ZeroWeights
from hires.recipe import Recipe, Size

SMALL, SMALL_BATCH = (4, 6), 2  # of the runs that measure workspace: strides of a side, samples


class SimulatedTraining:
    """The step of a recipe on examples, on a device, `cpu` or `cuda`; the workspace may be known already."""

    def __init__(self, recipe: Recipe, examples: Examples, device: str, workspace: Workspace | None = None):
        self.recipe, self.examples = recipe, examples
        self._allocator = allocator_settings()
        with ZeroWeights():
            task = _task(recipe, examples)
        self.units, self.stride = find_units(task, task.stages()), task.network.stride
        self.least_micro_batch = least_micro_batch(task)
        self.described = {unit.name: _described(task, unit) for unit in self.units}
        self._simulation = Simulation(task, device, self.units)
        self.device = self._simulation.device
        with self._simulation.active():
            self._average = make_average(self._simulation.module, recipe.trainer.ema_decay)
        self._optimizer = self._simulation.optimizer(recipe.optimizer.build)
        if workspace is not None:
            self.__dict__["workspace"] = workspace

    def at(self, recipe: Recipe) -> "SimulatedTraining":
        """The training of a recipe that differs in the image size; the network is the same where it takes any."""
        if self.module.network.backbone.fixed_size:
            return SimulatedTraining(recipe, self.examples, self.device.type, self.workspace)
        other = copy(self)
        other.recipe = recipe
        return other

    @property
    def module(self) -> Any:
        """The task without memory."""
        return self._simulation.module

    @property
    def offloads(self) -> bool:
        """Whether the policy `offload` does anything."""
        return self._offload() is not None

    def profile(self, said: Policies, micro_batch_size: int) -> MemoryProfile:
        """What a step occupies under policies."""
        task = self.module
        apply_policies(task, self.units, said, offload=self._offload())
        # the second of two full micro-batches needs most: gradients of the first are there
        batch_size = max(self.recipe.share, micro_batch_size)
        again = batch_size >= 2 * micro_batch_size
        count = micro_batch_size if again else batch_size
        with self._simulation.active():
            samples = self.examples.samples(task, count, self.recipe.image_size)
            for parameter in task.parameters():
                parameter.grad = torch.empty_like(parameter) if again and parameter.requires_grad else None
        average = None if self._average.module is task else self._average.module
        found = self._simulation.profile(
            partial(self._step, samples, micro_batch_size),
            optimizer=self._optimizer,
            average=average,
            workspace=self.workspace,
            allocator=self._allocator,
        )
        half = self.device.type == "cpu" and self.recipe.trainer.precision != "32-true"
        return replace(found, context=found.context + HALF_ON_CPU) if half else found

    def evaluation(self, batch_size: int) -> MemoryProfile:
        """What the forward of an evaluation occupies in the middle of a training. Raises SimulationError."""
        module: Any = self._average.module
        training = self.module
        for each in (module, training):
            remove_policies(each)
        with self._simulation.active():
            for parameter in training.parameters():
                parameter.grad = None
            batch = Place(self.device, self.recipe.trainer.channels_last)(
                training.example_batch(batch_size, self.recipe.window, self.examples.limits)
            )
        try:
            module.eval()
            return self._simulation.profile(
                partial(self._predict, module, batch),
                optimizer=self._optimizer,
                average=None if module is training else module,
                workspace=self.workspace,
                allocator=self._allocator,
            )
        finally:
            module.train()

    def _predict(self, module: Any, batch: Batch) -> None:
        with torch.no_grad(), self._autocast()():
            module.predict(batch)

    def _step(self, samples: list[Sample], micro_batch_size: int) -> None:
        task, recipe = self.module, self.recipe
        train_step(
            task,
            samples,
            _Repeating(self._simulation, self._optimizer),
            micro_batch_size=micro_batch_size,
            place=Place(self.device, recipe.trainer.channels_last),
            autocast=self._autocast(),
            clip=partial(self._simulation.repeated, "clip", self._clip),
            share=self._share(),
        )
        self._simulation.repeated("average", partial(self._average.update, 1))

    def _share(self) -> Share:
        if self.recipe.processes == 1:
            return Whole()
        return Rehearsal(self.module.parameters(), partial(self._simulation.give, category=BUCKETS))

    def _clip(self) -> None:
        limit = self.recipe.trainer.clip_grad_norm
        if limit:
            parameters = self.module.parameters()
            torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=self.device.type == "cuda")

    def _autocast(self) -> Callable[[], AbstractContextManager[Any]]:
        return autocast_of(self.recipe.trainer.precision, self.device.type)

    def _offload(self) -> SimulatedOffload | None:
        there = self.device.type == "cuda" or self.recipe.memory.offload_dir
        return SimulatedOffload(self.device) if there else None

    @cached_property
    def workspace(self) -> Workspace:
        """What kernels take; on a CPU measured in small on this machine, whose own kernels they are."""
        if self.device.type == "cuda":
            return CudaWorkspace()
        with torch.random.fork_rng(devices=[]):
            first, second = self.small_sizes()
            task = self._small_task(first)
            operations = self._measured(task, first)
            if self.module.network.backbone.fixed_size:
                task = self._small_task(second)
            return MeasuredWorkspace([*operations, *self._measured(task, second)])

    def small_sizes(self) -> list[Size]:
        """Two image sizes at which a step is soon done, multiples of the model's stride."""
        return [(count * self.stride, count * self.stride) for count in SMALL]

    def _small_recipe(self, size: Size) -> Recipe:
        return replace(self.recipe, top=replace(self.recipe.top, image_size=size))

    def _small_task(self, size: Size) -> Any:
        with ZeroWeights():
            return _unchecked(self._small_recipe(size), self.examples)

    def _measured(self, task: Any, size: Size) -> list[Operation]:
        """Raises SimulationError where the network does not take images of the size."""
        task.zero_grad(set_to_none=True)  # as in a first step
        count = min(SMALL_BATCH, self.recipe.micro_batch_size)
        samples = self.examples.samples(task, count, size)
        run = partial(
            accumulate,
            task,
            samples,
            micro_batch_size=count,
            place=Place(self.device, self.recipe.trainer.channels_last),
            autocast=self._autocast(),
        )
        try:
            if size == self.small_sizes()[0]:
                run()  # what is done once, the first time
            return measure(run)
        except (RuntimeError, ValueError, AssertionError, TypeError):
            try:
                _check(task, self._small_recipe(size))  # which tells why, but takes longer than the run
            except ConfigError as error:  # of a size that nobody asked for
                raise SimulationError(f"what kernels take is measured at {size}, but {error}") from error
            raise


@dataclass(frozen=True)
class _Repeating:
    """An optimizer whose step depends on parameters alone."""

    simulation: Simulation
    optimizer: torch.optim.Optimizer

    def step(self) -> None:
        self.simulation.repeated("optimizer", self.optimizer.step)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)


def device_of(recipe: Recipe) -> str:
    """The type of the device that a step is predicted for.

    Raises ConfigError if the step is to be measured on one that is not there.
    """
    there = "cuda" if torch.cuda.is_available() else "cpu"
    accelerator = recipe.trainer.accelerator
    device = recipe.memory.device or (there if accelerator == "auto" else accelerator)
    if recipe.memory.measure and device == "cuda" and there != "cuda":
        raise ConfigError(
            "memory.measure: got true, but torch finds no CUDA device here; leave out memory.measure=true to "
            "predict the step on CUDA without the device, or measure the step on this CPU with memory.device=cpu"
        )
    return device


def allocator_settings() -> AllocatorSettings:
    """Those of torch's caching allocator in this environment. Raises ConfigError for what cannot be replayed."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if text := os.environ.get(name):
            try:
                return AllocatorSettings.from_env(text)
            except ValueError as error:
                raise ConfigError(f"{name}: {error}") from error
    return AllocatorSettings()


def _task(recipe: Recipe, examples: Examples) -> Any:
    """Raises ConfigError where the network does not take images of the recipe's sizes."""
    task = _unchecked(recipe, examples)
    _check(task, recipe)
    return task


def _check(task: Any, recipe: Recipe) -> None:
    task.network.check(recipe.trials(training=True))


def _unchecked(recipe: Recipe, examples: Examples) -> Any:
    task = make_task(
        recipe,
        examples.classes,
        training=None,
        load_pretrained=False,
        normalization=examples.normalization(recipe),
    ).train()
    return task.to(memory_format=torch.channels_last) if recipe.trainer.channels_last else task


def _described(root: nn.Module, unit: Unit) -> dict[str, Any]:
    """Parameters and modules of a unit."""
    modules = [root.get_submodule(name) for name in unit.modules]
    parameters = sum(p.numel() for module in modules for p in module.parameters())
    named = [name.removeprefix("network.").removeprefix("backbone.net.model.") for name in unit.modules]
    return {"parameters": parameters, "modules": named}
