"""Signals that are sent to one of the processes that train together."""

import os
import signal

import pytest
import torch.distributed as dist

from hires.engine.stopping import Stopping
from tests.integration.test_signals import state
from tests.processes import in_processes

VALIDATION = "data.splits={val: 'images/[345].png'}"


@pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")
def test_one_of_two_processes_ends_the_evaluation_of_both(shapes_overrides, tmp_path):
    """The other one does not come to the end of its share, and looks until it is told."""
    looked = Stopping.look

    def look_of_the_second(self):
        os.kill(os.getpid(), signal.SIGTERM)
        looked(self)

    def look_of_the_first(self):
        while True:
            looked(self)

    def check(group):
        Stopping.look = look_of_the_second if group.rank else look_of_the_first
        answer = group.hires("train", *shapes_overrides, "trainer.devices=2", "evaluation.every=2", VALIDATION)
        assert answer.code == 143, answer
        assert ("SIGTERM: stopped after step 2" in answer.output) == (group.rank == 0)

    in_processes(2, check)
    assert state(tmp_path / "run")[".progress.step"] == 2
    assert state(tmp_path / "run")[".progress.evaluated_step"] == 0
