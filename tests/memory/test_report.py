"""What is said of a step's memory: the verdict, the moments of a chart, the rows of units."""

import pytest

from hires.memory.policies import Policy
from hires.memory.profile import profile_of
from hires.memory.report import SAMPLES, sampled, unit_rows, verdict
from hires.memory.timeline import (
    AVERAGE,
    GRADIENTS,
    PARAMETERS,
    STATE,
    TEMPORARIES,
    Place,
    Timeline,
)
from hires.memory.units import Unit

UNITS = [Unit("stage1.0", "stage1", ("a",)), Unit("stage1.1", "stage1", ("b",)), Unit("head", "head", ("c",))]


def profile(standing=100, kept=(0, 0, 0), again=(0, 0, 0), at_once=0, category=PARAMETERS):
    """Of a step whose units keep and compute again, and of which one operation takes something at once."""
    timeline = Timeline()
    timeline.add(standing, Place("input"), category)
    activations = [
        timeline.add(size, Place("forward", unit.name)) for unit, size in zip(UNITS, kept, strict=True) if size
    ]
    timeline.arrive(Place("backward"))
    if at_once:
        timeline.passing(at_once, Place("backward", "head"), TEMPORARIES)
    for block in reversed(activations):
        timeline.end(block)
    timeline.work = {Place("forward"): 100.0} | {
        Place("recompute", unit.name): float(time) for unit, time in zip(UNITS, again, strict=True) if time
    }
    return profile_of(timeline, "cpu")


def test_where_activations_are_most_checkpointing_will_help():
    alternatives = {
        "none": profile(kept=(200, 100, 50)),
        "selective": profile(kept=(150, 80, 50), again=(5, 5, 0)),
        "full": profile(kept=(40, 20, 10), again=(20, 10, 3)),
    }
    said = verdict(alternatives["none"], alternatives)
    assert said.startswith("Activations are 78% of the peak: checkpointing will help.")
    assert "With full for all units the peak is 38% of it, and 33% of the step is computed again" in said


def test_where_no_policy_helps():
    same = profile(kept=(200, 100, 50))
    said = verdict(same, {"none": same, "full": profile(kept=(198, 100, 50))})
    assert "no other policy for all units makes much smaller" in said
    assert "checkpointing will help" not in said


def test_what_is_already_chosen_is_not_advised():
    full = profile(kept=(200, 20, 10))
    assert "no other policy" in verdict(full, {"none": profile(kept=(400, 100, 50)), "full": full})


@pytest.mark.parametrize(
    ("category", "fix"),
    [
        (PARAMETERS, "a smaller backbone"),
        (GRADIENTS, "backbone.freeze"),
        (STATE, "optimizer=sgd"),
        (AVERAGE, "trainer.ema_decay=null"),
    ],
)
def test_where_parameters_and_what_belongs_to_them_are_most_it_will_not(category, fix):
    chosen = profile(standing=900, kept=(50, 30, 20), category=category)
    said = verdict(chosen, {"none": chosen, "full": profile(standing=900)})
    assert "are 90% of the peak" in said
    assert f"most of it {category}: checkpointing will not help much" in said
    assert fix in said


def test_where_checkpointing_helps_although_parameters_are_most():
    chosen = profile(standing=500, kept=(300, 100, 0))
    said = verdict(chosen, {"none": chosen, "full": profile(standing=500, kept=(50, 20, 0), again=(9, 9, 0))})
    assert "checkpointing will help" in said


def zigzag(count):
    timeline = Timeline()
    for index in range(count):
        timeline.passing(1 + index * 7919 % count, Place("forward", f"stage1.{index * 10 // count}"), TEMPORARIES)
    return timeline


@pytest.mark.parametrize("count", [1, 100, 150, 151, 2000])
def test_moments_of_a_chart(count):
    timeline = zigzag(count)
    found = sampled(timeline)
    rows = found["bytes"]
    moments = len(rows[TEMPORARIES])
    assert moments <= SAMPLES
    assert all(len(row) == moments for row in rows.values())
    stretch = -(-timeline.events // SAMPLES)
    assert moments == -(-timeline.events // stretch)  # of equal length, but the last
    live = timeline.live()
    totals = [sum(moment) for moment in zip(*rows.values(), strict=True)]
    assert totals == [max(live[start : start + stretch]) for start in range(0, timeline.events, stretch)]
    assert max(totals) == timeline.peak()[0]


def test_where_moments_are():
    found = sampled(zigzag(2000))
    assert [place["unit"] for place in found["places"]] == [f"stage1.{number}" for number in range(10)]
    indices = [place["index"] for place in found["places"]]
    assert indices[0] == 0
    assert indices == sorted(set(indices))
    assert sampled(zigzag(1))["places"] == [{"index": 0, "phase": "forward", "unit": "stage1.0"}]


def test_a_chart_begins_with_what_is_there_before_the_step():
    timeline = Timeline()
    for _ in range(1000):
        timeline.add(1, Place("input"), PARAMETERS)
    timeline.start = timeline.events
    timeline.add(5, Place("forward"))
    assert sampled(timeline)["bytes"][PARAMETERS] == [1000, 1000]


def test_what_is_computed_again_is_shown_within_the_backward():
    timeline = Timeline()
    for place in (Place("forward", "head"), Place("backward", "head"), Place("recompute", "head")):
        timeline.add(1, place)
    assert [place["phase"] for place in sampled(timeline)["places"]] == ["forward", "backward"]


def test_rows_of_units():
    alternatives = {
        "none": profile(kept=(200, 100, 50)),
        "full": profile(kept=(40, 20, 10), again=(20, 10, 3)),
    }
    chosen = profile(kept=(40, 100, 50), again=(20, 0, 0))
    policies = {"stage1.0": Policy("full"), "stage1.1": Policy(), "head": Policy("full", None)}
    rows = unit_rows(UNITS, policies, chosen, alternatives)
    assert list(rows) == ["stage1.0", "stage1.1", "head"]
    assert rows["stage1.0"] == {
        "policy": "full",
        "kept": 40,
        "recomputed": 160,
        "cost": 0.2,
        "policies": {"none": {"kept": 200, "cost": 0.0}, "full": {"kept": 40, "cost": 0.2}},
    }
    assert rows["stage1.1"]["recomputed"] == 0
    assert rows["stage1.1"]["cost"] == 0.0
    assert rows["head"]["policy"] == "full@stage"


def test_a_unit_that_keeps_nothing():
    nothing = profile()
    rows = unit_rows(UNITS, dict.fromkeys((unit.name for unit in UNITS), Policy()), nothing, {"none": nothing})
    assert all((row["kept"], row["recomputed"], row["cost"]) == (0, 0, 0.0) for row in rows.values())
