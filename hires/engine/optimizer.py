"""Optimizers and learning-rate schedules of timm."""

import inspect
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Protocol

import torch
from timm.optim import create_optimizer_v2, list_optimizers
from timm.scheduler import create_scheduler_v2
from torch import nn

from hires.interfaces import ConfigError
from hires.settings import Bounds, SettingError, Settings

Rate = Annotated[float, Bounds(0)]


@dataclass(frozen=True)
class OptimizerSettings(Settings):
    """A timm optimizer. Weight decay leaves out biases and normalisation layers."""

    name: str = "adamw"
    lr: Rate = 1e-3
    weight_decay: Rate = 0.05
    layer_decay: Annotated[float, Bounds(0, 1)] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name not in list_optimizers():
            near = get_close_matches(self.name, list_optimizers(), n=3)
            hint = f"such as {', '.join(near)}" if near else "such as adamw, sgd, lion"
            raise SettingError("name", self.name, f"one of timm.optim.list_optimizers(), {hint}")

    def build(self, task: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of the parameters that train, in groups by timm's rules."""
        try:
            return create_optimizer_v2(
                task,
                opt=self.name,
                lr=self.lr,
                weight_decay=self.weight_decay,
                layer_decay=self.layer_decay,
                **self.arguments,
            )
        except TypeError as error:
            raise ConfigError(f"optimizer.arguments: {error}") from error


class ResumableOptimizer:
    """An optimizer's state for a checkpoint; loading it keeps the rates that are configured now.

    A schedule made afterwards takes them for its peak.
    """

    def __init__(self, optimizer: Any):
        self.optimizer = optimizer

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        rates = [(group["lr"], group["weight_decay"]) for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state)
        for group, (lr, weight_decay) in zip(self.optimizer.param_groups, rates, strict=True):
            group.update(lr=lr, weight_decay=weight_decay)
            group.pop("initial_lr", None)


class Schedule(Protocol):
    """Sets the learning rate after each step; a subset of timm's schedulers."""

    def step_update(self, num_updates: int) -> None: ...


@dataclass(frozen=True)
class SchedulerSettings(Settings):
    """A timm schedule over optimizer steps with a linear warm-up."""

    name: Literal["cosine", "poly", "step", "multistep", "tanh", "constant"] = "cosine"
    warmup_steps: Annotated[int, Bounds(0)] = 50
    warmup_lr: Rate = 1e-6
    min_lr: Rate = 1e-6
    arguments: dict[str, Any] = field(default_factory=dict)

    def build(self, optimizer: torch.optim.Optimizer, max_steps: int) -> Schedule:
        """The schedule of a training of `max_steps` steps; a warm-up of more than half of it is cut to half."""
        warmup = min(self.warmup_steps, max_steps // 2)
        own: dict[str, Any] = {
            "sched": self.name,
            "num_epochs": max_steps,
            "updates_per_epoch": 1,
            "step_on_epochs": False,
            "warmup_epochs": warmup,
            "warmup_lr": self.warmup_lr,
            "min_lr": self.min_lr,
        }
        self._check_arguments(own)
        try:
            schedule, _ = create_scheduler_v2(optimizer, **own, **self.arguments)
        except (TypeError, ValueError, AssertionError) as error:
            raise ConfigError(f"scheduler.arguments: {self.arguments} do not fit {self.name}: {error}") from error
        schedule.step_update(0)
        return schedule

    def _check_arguments(self, own: dict[str, Any]) -> None:
        allowed = sorted(set(inspect.signature(create_scheduler_v2).parameters) - {"optimizer", *own})
        for name in self.arguments:
            if name not in allowed:
                raise ConfigError(f"scheduler.arguments.{name}: no such argument, allowed: {', '.join(allowed)}")
