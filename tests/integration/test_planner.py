"""The planner on simulated steps of a small U-Net: for CUDA, which is not here, and for the CPU, unprobed."""

import pytest

from hires.examples import Examples
from hires.interfaces import DataLimits
from hires.memory.predictions import Shape
from hires.planning import Planner, Trainings
from tests.recipes import small_recipe

UNET = ("model=unet", "model.decoder_channels=[32,16,16,8,8]", "memory.choices=[none,full]", "batch_size=8")
EXAMPLES = Examples(("a", "b", "c"), DataLimits(max_shape=(500, 700)))


@pytest.mark.parametrize(
    ("device", "goal", "budget", "precision"),
    [
        ("cuda", "batch", "640MiB", "bf16-mixed"),
        pytest.param("cpu", "resolution", "150MiB", "32-true", marks=pytest.mark.slow),
        pytest.param("cuda", "throughput", "640MiB", "32-true", marks=pytest.mark.slow),
        pytest.param("cuda", "resolution", "640MiB", "16-mixed", marks=pytest.mark.slow),
        pytest.param("cpu", "batch", "150MiB", "bf16-mixed", marks=pytest.mark.slow),
        pytest.param("cpu", "throughput", "150MiB", "32-true", marks=pytest.mark.slow),
    ],
)
def test_a_plan_keeps_to_its_budget_and_the_next_larger_would_not(device, goal, budget, precision):
    recipe = small_recipe(
        *UNET, f"memory.maximize={goal}", f"memory.budget={budget}", f"trainer.precision={precision}"
    )
    planner = Planner(recipe, EXAMPLES, device, None)
    plan = planner.plan()
    room = plan.budget - plan.margin
    shape = Shape(plan.micro_batch_size, *plan.image_size)
    again = Trainings(recipe, EXAMPLES, device)
    profile = again.simulate(shape, plan.policies)
    assert (profile.allocated, profile.reserved) == (plan.predicted.allocated, plan.predicted.reserved)
    assert profile.reserved <= room < plan.budget
    assert len(planner.search.tried) <= 16
    assert (plan.evaluation.reserved <= plan.budget) or plan.evaluation_batch_size == 1
    larger = planner.shapes[planner.shapes.index(shape) + 1 :]
    if goal == "throughput":
        assert plan.image_size == (128, 128)
    elif larger:
        assert min(found.reserved for found in planner.search.tried if found.shape == larger[0]) > room
        assert again.simulate(larger[0], "full").reserved > room
        assert again.simulate(larger[0], "full@stage").reserved > room
    assert shape != planner.shapes[0], "the budget is not for the smallest"


@pytest.mark.parametrize("backbone", ["test_resnet", pytest.param("test_vit", marks=pytest.mark.slow)])
def test_a_size_is_simulated_the_same_whatever_was_before(backbone):
    """One network for all sizes, or one for each; the update, whose memory is noted once, is that of each step."""
    recipe = small_recipe(
        f"backbone.name={backbone}",
        "memory.activation_checkpointing=auto",
        "trainer.ema_decay=0.9",
        "trainer.clip_grad_norm=1",
        "optimizer=adamw",
    )
    later, fresh = (Trainings(recipe, EXAMPLES, "cuda") for _ in range(2))
    shape = Shape(2, 128, 192)
    for before in (Shape(1, 64, 64), Shape(16, 64, 128)):
        later.simulate(before, "full")
    again, first = later.simulate(shape, "none"), fresh.simulate(shape, "none")
    assert again.timeline.live() == first.timeline.live()
    assert (again.allocated, again.reserved, again.compute()) == (first.allocated, first.reserved, first.compute())
