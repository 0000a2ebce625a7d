"""Processes that work for another one end with it, also where it has ended before they look."""

import os
import threading

import pytest

from hires.ops.parent import as_parent, end_with_parent, work_for_parent
from tests.forks import forked

GONE = 2**22 + 1  # above the largest number of a process


@pytest.mark.parametrize("begin", [end_with_parent, work_for_parent], ids=lambda begin: begin.__name__)
def test_a_parent_that_has_gone_before_is_seen(begin):
    def work():
        begin(GONE)
        threading.Event().wait()

    assert forked(work).wait(30) == 1


def test_a_worker_in_a_fork_knows_its_parent():
    assert as_parent() == os.getpid()
