"""Planners of trainings that are made up, and devices that say what their plans take."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from hires import planning
from hires.examples import Examples
from hires.interfaces import DataLimits
from hires.measured_memory import Measured
from hires.memory.allocator_settings import MIB
from hires.memory.predictions import Shape
from hires.memory.simulate_values import SimulationError
from hires.planning import Planner
from tests.made_up import MadeUp
from tests.recipes import small_recipe

SECONDS = 0.5


class Trainings:
    """In the place of simulated ones."""

    made = MadeUp(2)
    evaluated = True

    def __init__(self, recipe, examples, device):
        self.recipe, self.window = recipe, None

    def recipe_at(self, size):
        return replace(self.recipe, top=replace(self.recipe.top, image_size=size))

    def at(self, size):
        self.window = size
        return SimpleNamespace(
            units=self.made.units, stride=32, least_micro_batch=2, offloads=False, evaluation=self._evaluation
        )

    def simulate(self, shape, policies):
        return self.made.profile(shape, policies)

    def _evaluation(self, views):
        if not self.evaluated:
            raise SimulationError("it asks for a number")
        return self.made.profile(Shape(views, *self.window), "none")


@pytest.fixture
def made_up(monkeypatch):
    monkeypatch.setattr(planning, "Trainings", Trainings)


def planner(*overrides, try_out=None, largest=(0, 0)):
    recipe = small_recipe("memory.choices=[none,selective,full]", *overrides)
    return Planner(recipe, Examples(("a", "b", "c"), DataLimits(max_shape=largest)), "cpu", try_out)


class Device:
    """Takes `off` times what is predicted, and has so much memory."""

    def __init__(self, budget, *off, retries=0):
        self.budget, self.off, self.retries, self.plans = budget, off, retries, []

    def __call__(self, plan):
        off = self.off[min(len(self.plans), len(self.off) - 1)]
        self.plans.append(plan)
        reserved = round(plan.predicted.reserved * off)
        if reserved > self.budget:
            return Measured(out_of_memory=True)
        return Measured(round(reserved * 0.9), reserved, seconds=SECONDS, retries=self.retries)


BUDGET = 1000 * MIB
BATCH = ("memory.maximize=batch", "batch_size=64", "memory.budget=1000MiB")
RESOLUTION = ("memory.maximize=resolution", "memory.budget=1000MiB")
FINE = ("memory.maximize=batch", "memory.scale_batch_size=true", "batch_size=4", "memory.budget=1000MiB")
"""With little between two plans."""


def assert_sound(plan, found):
    assert (plan.measured or plan.predicted).reserved <= plan.budget
    assert 0 < plan.margin < plan.budget
    assert plan.micro_batch_size * plan.accumulation_steps >= found.recipe.top.batch_size
    policies = Trainings.made.profile(Shape(plan.micro_batch_size, *plan.image_size), plan.policies)
    assert (policies.allocated, policies.reserved) == (plan.predicted.allocated, plan.predicted.reserved)
    assert [(each.image_size, each.precision) for each in plan.rungs] == [
        (plan.image_size, plan.precision) for each in plan.rungs
    ]
