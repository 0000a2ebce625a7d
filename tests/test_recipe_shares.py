"""What one process of several has of a batch."""

import pytest

from hires.interfaces import ConfigError, MemoryPlan
from hires.memory.rungs import rungs_of
from hires.plans import _for_batch
from tests.recipes import small_recipe


def given(*overrides: str):
    return small_recipe("memory.activation_checkpointing=none", *overrides)


@pytest.mark.parametrize(
    ("batch_size", "devices", "nodes", "micro", "share", "steps"),
    [
        (16, 1, 1, "null", 16, 1),
        (16, 2, 1, "null", 8, 1),
        (5, 2, 1, 2, 3, 2),
        (16, 2, 3, 2, 3, 2),
        (7, 7, 1, 1, 1, 1),
    ],
)
def test_shares(batch_size, devices, nodes, micro, share, steps):
    recipe = given(
        f"batch_size={batch_size}",
        f"trainer.devices={devices}",
        f"trainer.num_nodes={nodes}",
        f"micro_batch_size={micro}",
    )
    assert recipe.share == share
    plan = recipe.given_plan()
    assert plan.accumulation_steps == steps
    assert plan.micro_batch_size * steps >= share


def test_all_micro_batches_that_come_are_tried():
    """Of shares of 5 and 4 samples in micro-batches of 3: 3 and 2, 3 and 1."""
    recipe = given("batch_size=9", "trainer.devices=2", "micro_batch_size=3")
    assert [trial.samples for trial in recipe.trials(training=True)][:-1] == [1, 2, 3]


def test_a_plan_is_that_of_a_process():
    recipe = given("batch_size=6", "trainer.devices=2")
    plan = MemoryPlan(4, 1, (128, 128), "32-true")
    with pytest.raises(
        ConfigError, match=r"a process has at most 3; set batch_size=8, or memory.scale_batch_size"
    ):
        _for_batch(plan, recipe)
    plan = _for_batch(MemoryPlan(2, 9, (128, 128), "32-true"), recipe)
    assert plan.accumulation_steps == 2
    assert [rung.accumulation_steps for rung in rungs_of(plan, recipe.share, {})] == [3]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["batch_size=1"], r"batch_size: got 1, allowed: at least one sample per device \(2\)"),
        (
            ["batch_size=5", "micro_batch_size=4"],
            "micro_batch_size: got 4, allowed: at most 3, the share of one of 2",
        ),
        (["trainer.strategy=fsdp"], "trainer.strategy: got 'fsdp', allowed: auto, ddp, fsdp2"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ConfigError, match=message):
        given("trainer.devices=2", *overrides).given_plan()


def test_what_several_processes_exchange_is_predicted():
    """Buffers for gradients, after the backward; the step itself is that of the share."""
    from hires.engine import buckets
    from hires.examples import Examples
    from hires.interfaces import DataLimits
    from hires.memory.timeline import BUCKETS
    from hires.simulated_training import SimulatedTraining

    examples = Examples(("a", "b", "c"), DataLimits())

    def profile(*overrides: str):
        return SimulatedTraining(given(*overrides), examples, "cuda").profile("none", 2)

    alone, several = profile("batch_size=2"), profile("batch_size=4", "trainer.devices=2")
    assert alone.allocated == several.allocated
    most = [max(found.timeline.by_category().get(BUCKETS, [0])) for found in (alone, several)]
    assert most[0] == 0
    assert 2**20 < most[1] <= buckets.BYTES
