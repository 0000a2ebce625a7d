"""Plans of trainings that are made up, with probes that measure what they are told to."""

import random
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hires import planning
from hires.examples import Examples
from hires.interfaces import ConfigError, DataLimits, TrainingError
from hires.measured_memory import Measured
from hires.memory.allocator_settings import MIB
from hires.memory.predictions import Shape
from hires.memory.simulate_values import SimulationError
from hires.planning import PROBES, Planner
from hires.visualize.text import size
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


@pytest.fixture(autouse=True)
def _made_up(monkeypatch):
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


@pytest.mark.parametrize("goal", [BATCH, RESOLUTION, FINE], ids=["batch", "resolution", "growing"])
@pytest.mark.parametrize("seed", range(4))
def test_the_next_larger_shape_does_not_fit(monkeypatch, goal, seed):
    monkeypatch.setattr(Trainings, "made", MadeUp(seed + 2))
    found = planner(*goal)
    plan = found.plan()
    assert_sound(plan, found)
    shape = Shape(plan.micro_batch_size, *plan.image_size)
    room = plan.budget - plan.margin
    larger = found.shapes[found.shapes.index(shape) + 1 :]
    assert not larger or Trainings.made.least(larger[0]) > room
    assert plan.predicted.reserved <= room
    assert plan.measured is None
    assert f"{shape.height} x {shape.width}" in plan.reasons[0]
    if larger:
        least = next(each for each in found.search.tried if each.shape == larger[0]).reserved
        assert f"{size(least)} at least" in plan.reasons[1]


def test_batches_stay_unless_they_may_grow():
    plan = planner(*BATCH).plan()
    assert plan.accumulation_steps == -(-64 // plan.micro_batch_size)
    found = planner(*FINE)
    plan = found.plan()
    assert plan.micro_batch_size > 4
    assert plan.accumulation_steps == 1
    assert found.override(plan).startswith(f"batch_size={plan.micro_batch_size} micro_batch_size=")


def test_the_image_size_has_the_aspect_that_was_given_and_is_no_larger_than_images():
    plan = planner(*RESOLUTION, "image_size=[64,128]").plan()
    assert plan.image_size[1] == 2 * plan.image_size[0] > 128
    assert plan.micro_batch_size == 2
    assert planner(*RESOLUTION, largest=(90, 100)).plan().image_size == (96, 96)
    assert planner(*RESOLUTION, "memory.min_micro_batch=5").plan().micro_batch_size == 5
    assert planner(*RESOLUTION, "memory.min_micro_batch=50").plan().micro_batch_size == 16  # the batch


def test_images_smaller_than_two_strides():
    assert planner(*RESOLUTION, largest=(20, 30)).plan().image_size == (32, 32)


def test_where_nothing_is_to_be_found_but_policies():
    plan = planner("micro_batch_size=8", "memory.budget=1000MiB").plan()
    assert (plan.micro_batch_size, plan.image_size) == (8, (128, 128))
    assert plan.reasons[-1] == "Its shape was given."


def test_policies_that_were_given_stay():
    found = planner(*BATCH, "memory.activation_checkpointing={stage1.0-1: full}")
    plan = found.plan()
    assert plan.policies == {"stage1.0": "full", "stage1.1": "full", "stage1.2": "none", "stage1.3": "none"}
    assert "'memory.activation_checkpointing={stage1.0-1: full}'" in found.override(plan)


def test_what_has_to_stay_free_is_told():
    least = Trainings.made.least(Shape(8, 128, 128))
    with pytest.raises(ConfigError, match=r"reserve \S+ MiB at least, and \S+ MiB have to stay free; raise it"):
        planner("micro_batch_size=8", f"memory.budget={least / MIB + 1:.0f}MiB").plan()


def test_a_goal_that_needs_an_image_size():
    with pytest.raises(ConfigError, match="image_size: got auto"):
        planner("memory.maximize=batch", "image_size=auto", "memory.budget=1GiB")


@pytest.mark.parametrize("goal", ["batch", "throughput", "resolution"])
def test_a_budget_that_nothing_fits_into(goal):
    with pytest.raises(
        ConfigError, match=r"^memory.budget: nothing fits into 30.0 MiB: a micro-batch of 2 at \d+"
    ):
        planner(f"memory.maximize={goal}", "memory.budget=30MiB").plan()


def test_a_prediction_that_holds_is_used_up():
    device = Device(BUDGET, 1.0)
    plan = planner(*FINE, try_out=device).plan()
    assert len(device.plans) <= 2
    assert plan.measured.reserved > 0.94 * BUDGET
    assert plan.measured.reserved == plan.predicted.reserved


@pytest.mark.parametrize("goal", [RESOLUTION, FINE], ids=["resolution", "growing"])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_probe_shows_to_be_free_is_used_for_the_next_larger(monkeypatch, goal, seed):
    """However little it is."""
    monkeypatch.setattr(Trainings, "made", MadeUp(seed + 2))
    found = planner(*goal, try_out=Device(BUDGET, 1.0))
    plan = found.plan()
    shape = Shape(plan.micro_batch_size, *plan.image_size)
    larger = found.shapes[found.shapes.index(shape) + 1 :]
    assert not larger or Trainings.made.least(larger[0]) > BUDGET - plan.margin


def test_what_is_free_is_used_after_a_probe():
    """Predicted a fifth too high: the plan moves, and is tried too."""
    device = Device(BUDGET, 0.8)
    found = planner(*FINE, try_out=device)
    plan = found.plan()
    assert_sound(plan, found)
    first, last = device.plans[0], device.plans[-1]
    assert last.micro_batch_size > first.micro_batch_size
    assert plan.micro_batch_size == last.micro_batch_size
    assert 0.9 * BUDGET < plan.measured.reserved <= BUDGET
    assert len(device.plans) <= PROBES


def test_what_fits_stays_if_the_next_is_too_large():
    device = Device(BUDGET, 0.8, 1.2)
    found = planner(*FINE, try_out=device)
    plan = found.plan()
    assert [probe.fits for probe in found.probes] == [True, False]
    assert plan.micro_batch_size == device.plans[0].micro_batch_size < device.plans[1].micro_batch_size
    assert plan.measured.reserved == round(0.8 * plan.predicted.reserved)
    assert_sound(plan, found)


@pytest.mark.parametrize("goal", [BATCH, RESOLUTION, FINE], ids=["batch", "resolution", "growing"])
def test_what_runs_out_of_memory_makes_room(goal):
    device = Device(BUDGET, 1.1)
    found = planner(*goal, try_out=device)
    plan = found.plan()
    assert found.probes[-1].fits
    assert found.probes[-1].found.shape == Shape(plan.micro_batch_size, *plan.image_size)
    assert plan.measured.reserved <= BUDGET
    first = device.plans[0]
    if not found.probes[0].fits:
        assert plan.predicted.reserved < first.predicted.reserved
    assert_sound(plan, found)


@pytest.mark.parametrize("goal", [RESOLUTION, FINE], ids=["resolution", "growing"])
@pytest.mark.parametrize("seed", range(4))
def test_after_one_that_did_not_fit_what_the_next_shows_to_be_free_is_used(monkeypatch, goal, seed):
    monkeypatch.setattr(Trainings, "made", MadeUp(seed + 2))
    found = planner(*goal, try_out=Device(BUDGET, 1.045))
    plan = found.plan()
    assert [probe.fits for probe in found.probes[1:]] == [True] * (len(found.probes) - 1)
    shape = Shape(plan.micro_batch_size, *plan.image_size)
    larger = found.shapes[found.shapes.index(shape) + 1 :]
    assert not larger or 1.045 * Trainings.made.least(larger[0]) > BUDGET - 3 * plan.margin


def test_allocator_retries_do_not_fit():
    with pytest.raises(ConfigError, match="no plan that was predicted to fit did so when it was tried"):
        planner(*BATCH, try_out=Device(BUDGET, 1.0, retries=3)).plan()


def test_probes_that_never_fit_end_in_an_error():
    tried, measured = [], Measured(out_of_memory=True)
    found = planner(*FINE, try_out=lambda plan: tried.append(plan) or measured)
    with pytest.raises(ConfigError, match="no plan that was predicted to fit did so when it was tried"):
        found.plan()
    assert len(tried) == PROBES
    assert [plan.predicted.reserved for plan in tried] == sorted(
        (plan.predicted.reserved for plan in tried), reverse=True
    )


@pytest.mark.parametrize("seed", range(12))
def test_whatever_probes_measure_the_plan_is_one_that_fitted(monkeypatch, seed):
    draw = random.Random(seed)
    monkeypatch.setattr(Trainings, "made", MadeUp(seed))
    goal = draw.choice([BATCH, RESOLUTION, FINE, ("memory.maximize=throughput", "memory.budget=1000MiB")])
    device = Device(BUDGET, *(draw.uniform(0.7, 1.15) for _ in range(3)))
    found = planner(*goal, try_out=device)
    plan = None
    with suppress(ConfigError):
        plan = found.plan()
    fitted = [(probe.measured.reserved, probe.found.reserved) for probe in found.probes if probe.fits]
    assert (plan is None) == (not fitted)
    if plan is not None:
        assert_sound(plan, found)
        assert (plan.measured.reserved, plan.predicted.reserved) == fitted[-1]
    assert len(device.plans) <= PROBES
    assert sum(not probe.fits for probe in found.probes[1:]) <= 2


def test_evaluations_fit_too():
    plan = planner(*BATCH, "evaluation.batch_size=16").plan()
    views = Trainings.made.profile(Shape(plan.evaluation_batch_size, 128, 128), "none").reserved
    assert plan.evaluation.reserved == views <= BUDGET
    assert Trainings.made.profile(Shape(2 * plan.evaluation_batch_size, 128, 128), "none").reserved > BUDGET


@pytest.mark.parametrize("more", [(), ("image_size=auto", "memory.maximize=resolution")], ids=["given", "found"])
def test_an_evaluation_that_does_not_fit_is_told(monkeypatch, more):
    large = MadeUp(2, lambda shape: 100.0)
    evaluation = lambda self, views: large.profile(Shape(views, 128, 128), "none")  # noqa: E731
    monkeypatch.setattr(Trainings, "_evaluation", evaluation)
    plan = planner(*BATCH, "evaluation.batch_size=4", *more, largest=(256, 256)).plan()
    assert plan.evaluation_batch_size == 1
    window = "" if more else "128 x 128 "
    assert f"An evaluation of one window of {window}" in plan.reasons[-1]
    assert "is predicted to reserve" in plan.reasons[-1]
    assert "set a smaller evaluation.window" in plan.reasons[-1]


def test_an_evaluation_that_cannot_be_predicted_stays_as_it_is_given(monkeypatch):
    monkeypatch.setattr(Trainings, "evaluated", False)
    plan = planner(*BATCH, "evaluation.batch_size=16").plan()
    assert (plan.evaluation_batch_size, plan.evaluation) == (16, None)


def test_what_a_plan_falls_back_to():
    plan = planner(*BATCH).plan()
    assert plan.rungs[0].policies != plan.policies or plan.rungs[0].micro_batch_size < plan.micro_batch_size
    shape = Shape(plan.micro_batch_size, *plan.image_size)
    profile = Trainings.made.profile(shape, plan.rungs[0].policies)
    assert profile.reserved == Trainings.made.least(shape) or plan.rungs[0].policies == plan.policies
    assert plan.rungs[-1].micro_batch_size == 2
    assert plan.rungs[-1].accumulation_steps == 32


def test_a_probe_that_fails_for_another_reason_is_no_answer():
    with pytest.raises(TrainingError, match="could not be tried out"):
        planner(*FINE, try_out=lambda plan: Measured()).plan()
