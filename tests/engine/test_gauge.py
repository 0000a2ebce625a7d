"""What a training takes in its first steps."""

import numpy as np
import pytest

from hires.engine.gauge import STEPS, Gauge
from hires.ops.process_memory import fix_threshold, vm_data

MIB = 2**20
pytestmark = pytest.mark.skipif(vm_data() is None, reason="there is no /proc")


def stepping(sizes):
    """Steps that take so many MiB each, until the next."""
    left, taken = iter(sizes), []

    def update(samples):
        taken.clear()
        taken.append(np.ones(next(left) * MIB, np.uint8))
        return {"loss": samples}

    return update


def test_the_most_of_the_first_steps():
    fix_threshold()
    with Gauge("cpu") as gauge:
        update = gauge.watching(stepping([16, 32, 64, 256]))
        assert [update(index)["loss"] for index in range(STEPS)] == [0, 1, 2]
        assert 64 <= gauge.reserved / MIB < 80
        update(3)
    assert 64 <= gauge.reserved / MIB < 80, "later steps are timed, not measured"
    assert gauge.allocated is None


def test_what_is_made_before_the_steps_counts():
    with Gauge("cpu") as gauge:
        kept = np.ones(48 * MIB, np.uint8)
        update = gauge.watching(stepping([16] * STEPS))
        for index in range(STEPS):
            update(index)
    assert kept[0] == 1
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
