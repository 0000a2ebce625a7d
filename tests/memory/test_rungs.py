"""What a plan falls back to."""

import pytest

from hires.interfaces import MemoryPlan, Peaks
from hires.memory.rungs import rungs_of

THRIFTY = {"stage1": "full@2", "loss": "full"}


def plan(micro, batch_size=12, **policies):
    return MemoryPlan(
        micro,
        -(-batch_size // micro),
        (512, 768),
        "bf16-mixed",
        policies,
        budget=2**30,
        margin=2**20,
        predicted=Peaks(1, 2),
        measured=Peaks(3, 4),
        evaluation_batch_size=4,
        reasons=("because",),
    )


def test_first_the_policies_then_smaller_micro_batches():
    found = rungs_of(plan(12, stage1="none", loss="none"), 12, THRIFTY)
    assert [rung.micro_batch_size for rung in found] == [12, 6, 3, 2, 1]
    assert [rung.accumulation_steps for rung in found] == [1, 2, 4, 6, 12]
    assert all(rung.policies == THRIFTY for rung in found)


@pytest.mark.parametrize(("micro", "least", "expected"), [(12, 4, [6, 4]), (5, 2, [3, 2]), (2, 2, []), (1, 1, [])])
def test_no_rung_twice_and_none_below_the_least(micro, least, expected):
    found = rungs_of(plan(micro, **THRIFTY), 12, THRIFTY, least)
    assert [rung.micro_batch_size for rung in found] == expected


def test_a_rung_changes_nothing_else_and_has_no_figures():
    for rung in rungs_of(plan(8, stage1="none", loss="none"), 12, THRIFTY):
        assert (rung.image_size, rung.precision, rung.budget) == ((512, 768), "bf16-mixed", 2**30)
        assert rung.evaluation_batch_size == 4
        assert (rung.predicted, rung.measured, rung.margin, rung.reasons) == (None, None, None, ())
        assert rung.rungs == ()
        assert rung.micro_batch_size * rung.accumulation_steps >= 12
