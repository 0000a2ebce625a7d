"""Memory that runs out while weights are averaged: done in a second try, to the same bits, or told."""

import pytest
import torch

from hires.interfaces import TrainingError
from tests.recovering import CPU, CUDA, Run, plan, same


def short(step, *errors, half_done=False):
    """A training whose averaging raises these in a step, one after the other."""
    run, left = Run(plan()), list(errors)
    update = run.average.update

    def failing(now):
        if now != step or not left:
            return update(now)
        if half_done:
            with torch.no_grad():
                run.average.averaged()[0].mul_(0.5)
        raise left.pop()

    run.average.update = failing
    return run, left


@pytest.mark.parametrize("error", [CUDA, CPU], ids=["cuda", "cpu"])
def test_a_second_try_ends_in_the_same_bits(error, caplog):
    run, left = short(3, error)
    same(run.train(5).state(), Run(plan()).train(5).state())
    assert not left
    assert "step 3: out of memory while the weights were averaged" in caplog.text


def test_a_second_shortage_ends_the_training():
    run, left = short(3, CUDA, CUDA)
    with pytest.raises(TrainingError, match="step 3: out of memory while the weights were averaged"):
        run.train(5)
    assert not left


def test_what_is_half_done_is_not_done_again():
    run, left = short(3, CUDA, CUDA, half_done=True)
    with pytest.raises(TrainingError, match="resume=RUN"):
        run.train(5)
    assert len(left) == 1


def test_other_errors_pass():
    run, _ = short(3, KeyError("weight"))
    with pytest.raises(KeyError):
        run.train(5)
