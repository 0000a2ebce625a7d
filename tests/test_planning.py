"""Plans of trainings that are made up: what is searched for, and what a plan holds."""

import pytest

from hires.interfaces import ConfigError
from hires.memory.allocator_settings import MIB
from hires.memory.predictions import Shape
from hires.visualize.text import size
from tests.made_up import MadeUp
from tests.planners import BATCH, BUDGET, FINE, RESOLUTION, Trainings, assert_sound, made_up, planner

__all__ = ["made_up"]  # a fixture
pytestmark = pytest.mark.usefixtures("made_up")


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
