"""Numbers that SLURM tells by the environment, which may hold anything."""

import pytest

from hires.engine.slurm import count, is_requeued, starts


@pytest.mark.parametrize(
    ("text", "number"), [("3", 3), ("0", 0), ("", 7), ("x", 7), ("-1", 7), ("²", 7), ("9" * 5000, 7)]
)
def test_numbers_of_slurm(monkeypatch, text, number):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", text)
    assert count("SLURM_STEP_NUM_TASKS", 7) == number
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    assert count("SLURM_STEP_NUM_TASKS", 7) == 7


def test_a_job_that_was_never_put_back(monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "junk")
    assert (starts(), is_requeued()) == (0, False)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    assert (starts(), is_requeued()) == (2, True)
