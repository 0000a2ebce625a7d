"""Plans of trainings that are made up, with probes that measure what they are told to."""

import random
from contextlib import suppress

import pytest

from hires.interfaces import ConfigError, TrainingError
from hires.measured_memory import Measured
from hires.memory.predictions import Shape
from hires.planning import PROBES
from tests.made_up import MadeUp
from tests.planners import (
    BATCH,
    BUDGET,
    FINE,
    RESOLUTION,
    Device,
    Trainings,
    assert_sound,
    made_up,
    planner,
)

__all__ = ["made_up"]  # a fixture
pytestmark = pytest.mark.usefixtures("made_up")


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


def test_a_probe_that_fails_for_another_reason_is_no_answer():
    with pytest.raises(TrainingError, match="could not be tried out"):
        planner(*FINE, try_out=lambda plan: Measured()).plan()
