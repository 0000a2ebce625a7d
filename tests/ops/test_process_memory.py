"""What this process takes, as the system counts it."""

import resource
import subprocess
import sys

import numpy as np
import pytest
import torch

from hires.ops.process_memory import Growth, fix_threshold, lift_limit, limit_data, set_limit, vm_data

MIB = 2**20
pytestmark = pytest.mark.skipif(vm_data() is None, reason="there is no /proc")


@pytest.fixture
def lifted():
    yield
    lift_limit()


def test_growth_is_the_most_that_was_there_at_once():
    fix_threshold()
    with Growth() as growth:
        for _ in range(5):
            np.ones(64 * MIB, np.uint8)  # given back at once
        kept = torch.ones(32 * MIB, dtype=torch.uint8)
    assert kept[0] == 1
    assert 64 <= growth.bytes / MIB < 80


def test_nothing_grows_by_nothing():
    with Growth() as growth:
        pass
    assert 0 <= growth.bytes < MIB


def test_a_limit_holds_until_it_is_lifted(lifted):
    limit_data(vm_data() + 48 * MIB)
    np.ones(32 * MIB, np.uint8)
    with pytest.raises(MemoryError):  # more than may lie free in the heap
        np.empty(4096 * MIB, np.uint8)
    lift_limit()
    assert len(np.empty(4096 * MIB, np.uint8)) == 4096 * MIB


def test_lifting_leaves_the_hard_limit(lifted):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit_data(2**40)
    assert resource.getrlimit(resource.RLIMIT_DATA)[1] == before[1]
    lift_limit()
    assert resource.getrlimit(resource.RLIMIT_DATA) == (before[1], before[1])


def test_a_limit_below_the_hard_one_comes_back(lifted):
    set_limit(2**42)
    before = limit_data(vm_data() + 48 * MIB)
    set_limit(before)
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 2**42


def test_a_limit_above_the_hard_one_is_that():
    code = (
        "import resource; from hires.ops.process_memory import limit_data; "
        "resource.setrlimit(resource.RLIMIT_DATA, (2**40, 2**40)); limit_data(2**41); "
        "assert resource.getrlimit(resource.RLIMIT_DATA) == (2**40, 2**40)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
