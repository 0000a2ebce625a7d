"""What a training takes in its first steps."""

import mmap

import pytest

from hires.engine.gauge import STEPS, Gauge
from hires.ops.process_memory import vm_data

MIB = 2**20
pytestmark = pytest.mark.skipif(vm_data() is None, reason="there is no /proc")


def memory(mib):
    """From the system, whatever lies free in the heap."""
    return mmap.mmap(-1, mib * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def stepping(sizes):
    """Steps that take so many MiB each, until the next."""
    left, taken = iter(sizes), []

    def update(samples):
        taken.clear()
        taken.append(memory(next(left)))
        return {"loss": samples}

    return update


def test_the_most_of_the_first_steps():
    with Gauge("cpu") as gauge:
        update = gauge.watching(stepping([16, 32, 64, 256]))
        assert [update(index)["loss"] for index in range(STEPS)] == [0, 1, 2]
        assert 64 <= gauge.reserved / MIB < 80
        update(3)
    assert 64 <= gauge.reserved / MIB < 80, "later steps are timed, not measured"
    assert gauge.allocated is None


def test_the_first_steps_are_told_by_their_most():
    with Gauge("cpu", before=vm_data()) as gauge:
        taken = memory(64)
        while (gauge._growth.bytes or 0) < 60 * MIB:
            pass
        taken.close()
        assert gauge.so_far()[1] >= 60 * MIB


def test_what_is_made_before_the_steps_counts():
    with Gauge("cpu") as gauge:
        kept = memory(48)
        update = gauge.watching(stepping([16] * STEPS))
        for index in range(STEPS):
            update(index)
    assert len(kept) == 48 * MIB
    assert gauge.reserved / MIB >= 64


def test_fewer_steps_are_measured_to_their_end():
    with Gauge("cpu") as gauge:
        update = gauge.watching(stepping([24]))
        update(0)
    assert gauge.reserved / MIB >= 24


def test_an_error_ends_the_measurement():
    gauge = Gauge("cpu")
    with pytest.raises(StopIteration), gauge:
        gauge.watching(stepping([]))(0)
    assert gauge.reserved is not None
