"""What a run without a result tells of itself."""

import pytest

from hires.report_unfinished import has_validation, result_so_far, steps_reached, time_of_steps, verdict


def train(step, seconds=None):
    return {"kind": "train", "step": step, "loss": 1.0, "seconds_per_step": seconds, "images_per_second": 8.0}


def evaluation(step, value):
    return {"kind": "evaluate", "step": step, "mIoU": value}


@pytest.mark.parametrize(
    ("records", "stopped", "max_steps", "said"),
    [
        ([], {}, 40, "The training has not ended."),
        ([train(20)], {}, 40, "The training has not ended: 20 steps of 40 are done."),
        ([train(20)], {}, None, "The training has not ended: 20 steps are done."),
        ([train(20)], {"step": 23, "max_steps": 60}, None, "The training has not ended: 23 steps of 60 are done."),
        (
            [train(40), evaluation(20, 0.5)],
            {},
            40,
            "All 40 steps are done, but the evaluation after them is missing:",
        ),
        ([train(40), evaluation(40, 0.5)], {}, 40, "All 40 steps are done, but the result is missing:"),
    ],
)
def test_how_far_a_run_is(records, stopped, max_steps, said):
    assert verdict(steps_reached(records, stopped, max_steps)).startswith(said)


def test_no_evaluation_is_missing_where_there_are_no_images_for_it():
    assert "the result is missing" in verdict(steps_reached([train(40)], {}, 40, evaluates=False))
    assert has_validation({"splits": {"val": 0.2}, "fold": None})
    assert has_validation({"splits": {"val": None}, "fold": 0})
    assert has_validation({"annotations": {"train": "a.json", "val": "b.json"}})
    assert not has_validation({"splits": {"val": None}, "fold": None})
    assert not has_validation({"annotations": {"train": "a.json"}, "splits": {"val": 0.2}})


def test_seconds_of_steps_are_those_of_the_lines():
    lines = [train(10, 0.5), evaluation(10, 0.5), train(20, 0.25), train(23, None), train(24, 2.0)]
    assert time_of_steps(lines)["seconds"] == {"steps": 10 * 0.5 + 10 * 0.25 + 1 * 2.0}
    assert time_of_steps(lines)["steps"] == 21
    assert time_of_steps([train(10)]) is None


def test_peaks_and_the_best_are_found_in_other_files():
    plan = {"predicted": {"allocated": 3, "reserved": 5}, "measured": {"allocated": 2, "reserved": None}}
    lines = [train(10, 0.5), evaluation(10, 0.25), evaluation(20, None), evaluation(30, 0.5), evaluation(40, 0.5)]
    found = result_so_far(lines, {"peak_bytes": {"reserved": 7, "allocated": None}}, plan, None)
    assert found["peak_bytes"] == {"predicted": plan["predicted"], "allocated": 2, "reserved": 7}
    assert found["best"] == {"metric": "mIoU", "value": 0.5, "step": 30}
    assert (found["steps"], found["seconds_per_step"], found["images_per_second"]) == (40, 0.5, 8.0)
    assert "best" not in result_so_far([train(10, 0.5)], {}, None, None)
