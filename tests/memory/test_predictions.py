"""Steps of other shapes than those that were simulated."""

import pytest

from hires.memory.allocator_settings import MIB
from hires.memory.predictions import Predictions, Shape
from tests.made_up import CHOICES, MadeUp

KNOWN = (Shape(1, 256, 256), Shape(2, 512, 512))


def predictions(made, *known, choices=CHOICES):
    found = Predictions(made.units, {name: name for name in choices}, made.profile, "cpu")
    for shape in known:
        found.learn(shape)
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("known", [KNOWN[:1], KNOWN], ids=["one", "two"])
@pytest.mark.parametrize("shape", [Shape(1, 128, 128), Shape(3, 256, 320), Shape(16, 1024, 512), KNOWN[1]])
def test_the_least_of_any_shape(seed, known, shape):
    made = MadeUp(seed)
    assert predictions(made, *known).least(shape) == pytest.approx(made.least(shape), rel=1e-6)


def test_a_shape_is_simulated_once():
    made = MadeUp(0)
    found = predictions(made, KNOWN[0], KNOWN[0])
    found.learn(KNOWN[0], ["full"])
    assert made.calls == len(CHOICES)


def test_some_policies_are_enough_for_an_estimate():
    made = MadeUp(0)
    found = Predictions(made.units, {name: name for name in CHOICES}, made.profile, "cpu")
    found.learn(KNOWN[0], ["full"])
    assert found.least(KNOWN[1]) == pytest.approx(made.profile(KNOWN[1], "full").reserved, rel=1e-6)


def test_more_pixels_need_more():
    found = predictions(MadeUp(1), *KNOWN)
    least = [found.least(Shape(micro, 320, 320)) for micro in range(1, 30)]
    assert least == sorted(least)


def test_what_is_reserved_beyond_tensors_is_that_of_the_nearest_shape():
    made = MadeUp(0)
    assert predictions(made, *KNOWN).overhead(Shape(1, 320, 320)) == 10 * MIB


@pytest.mark.parametrize("seed", range(5))
def test_the_time_of_an_optimizer_step(seed):
    """All of its micro-batches, what is computed again, and one update."""
    made, shape = MadeUp(seed), Shape(4, 512, 256)
    found = predictions(made, *KNOWN)
    profile = made.profile(shape, "none")
    update = profile.compute("optimizer")
    plain = 3 * (profile.compute() - update) + update
    assert found.step_time(shape, batch_size=10, room=2**50) == pytest.approx(plain, rel=1e-6)
    least = found.least(shape)
    slower = found.step_time(shape, batch_size=10, room=least + 1)
    assert slower > plain
    assert found.step_time(shape, batch_size=10, room=least - 1) is None
    halfway = found.step_time(shape, batch_size=10, room=(least + profile.reserved) // 2)
    assert plain <= halfway <= slower
