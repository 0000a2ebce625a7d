"""What units need, read from simulated steps, and what that is at other sizes."""

from functools import cache

import pytest
import torch
from blocks import Trunk, batch_norm
from torch.nn import functional as F

from hires.memory.allocator_settings import MIB
from hires.memory.checkpointing import apply_policies
from hires.memory.mixtures import segments
from hires.memory.needs import Needs, needs_of
from hires.memory.predictions import Shape
from hires.memory.simulate import Simulation
from hires.memory.units import find_units
from tests.made_up import MadeUp


@cache
def simulation():
    torch.manual_seed(0)
    trunk = Trunk(batch_norm(0.1))
    units = find_units(trunk, trunk.stages())
    made = Simulation(trunk, "cpu", units)
    return made, made.optimizer(lambda module: torch.optim.AdamW(module.parameters(), foreach=False))


@cache
def needs(policy, count, height, width):
    made, optimizer = simulation()
    apply_policies(made.module, made.units, policy)

    def step():
        images = torch.rand(count, 3, height, width)
        target = torch.zeros(count, 2, height // 2, width // 2)
        F.mse_loss(made.module(images), target, reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()

    return needs_of(made.profile(step, optimizer=optimizer), [unit.name for unit in made.units])


def assert_close(one: Needs, other: Needs, rel: float) -> None:
    for part in ("kept", "forward", "backward"):
        assert getattr(one, part) == pytest.approx(getattr(other, part), rel=rel, abs=1024), part
    assert (one.rest, one.work) == pytest.approx((other.rest, other.work), rel=rel)
    assert (one.standing, one.update) == (other.standing, other.update)


@pytest.mark.parametrize("policy", ["none", "selective", "full@stage"])
def test_two_sizes_tell_a_third(policy):
    """Beyond them, below them and between; of more samples or more pixels, all the same."""
    small, large = needs(policy, 1, 128, 128), needs(policy, 2, 160, 192)
    pixels, more = 128 * 128, 2 * 160 * 192
    for count, height, width in ((4, 192, 256), (1, 128, 192), (1, 96, 128)):
        share = (count * height * width - pixels) / (more - pixels)
        assert_close(small.towards(large, share), needs(policy, count, height, width), rel=1e-3)


@pytest.mark.parametrize("policy", ["none", "full"])
def test_one_size_scales(policy):
    """Roughly, and rather up: gradients, statistics and launches do not grow with the images."""
    scaled, simulated = needs(policy, 1, 128, 128).at(8), needs(policy, 4, 128, 256)
    assert_close(scaled, simulated, rel=0.1)
    assert scaled.kept == pytest.approx(simulated.kept, rel=2e-3, abs=1024)
    assert scaled.rest >= simulated.rest


def test_what_stands_there_does_not_grow():
    found = needs("none", 1, 128, 128)
    assert found.standing > 0
    none = found.at(0)
    assert set(none.kept.values()) == {0}
    assert all(value == pytest.approx(found.standing) for value in none.forward.values())
    assert none.update == found.update > 0


def test_more_pixels_need_more():
    small, large = needs("selective", 1, 128, 128), needs("selective", 2, 160, 192)
    before = small
    for share in (0.5, 1, 3, 10):
        after = small.towards(large, share)
        for part in ("kept", "forward", "backward"):
            pairs = zip(getattr(before, part).values(), getattr(after, part).values(), strict=True)
            assert all(less <= more for less, more in pairs)
        assert before.rest <= after.rest
        assert before.work < after.work
        before = after


def test_nothing_needs_less_than_nothing():
    far = needs("none", 1, 128, 128).towards(needs("none", 2, 160, 192), -1)
    assert min(*far.kept.values(), *far.forward.values(), *far.backward.values(), far.rest, far.work) >= 0


def test_policies_trade_memory_for_compute():
    none, full = needs("none", 2, 160, 192), needs("full", 2, 160, 192)
    assert set(none.cost.values()) == {0}
    assert min(cost for unit, cost in full.cost.items() if unit != "head") > 0  # its input is all it keeps
    assert sum(full.kept.values()) < sum(none.kept.values()) / 2
    assert (none.update, none.standing) == (full.update, full.standing)
    assert full.work == pytest.approx(none.work, rel=0.01)  # what is done again is no part of it


def test_what_a_unit_needs_is_above_what_those_before_it_keep():
    """Of a step that is made up, whose needs are known."""
    made, pixels = MadeUp(3), 1000
    found = needs_of(made.profile(Shape(1, 10, 100), "none"), list(made.kept))
    assert found.kept == {name: count * pixels for name, count in made.kept.items()}
    assert found.standing == found.rest == made.standing
    for name, kept in found.kept.items():
        passing = made.passing[name] * pixels
        assert found.forward[name] == made.standing + max(kept, passing)
        assert found.backward[name] == made.standing + kept + passing
    assert found.work == pytest.approx(3 * pixels * sum(made.work.values()))
    assert found.update == made.standing / MIB


def test_what_is_moved_out_costs_by_its_bytes():
    """`offload` computes nothing again, and takes time all the same."""
    none, full = needs("none", 1, 128, 128), needs("full", 1, 128, 128)
    moved = full.moving(none, price=2.0)
    whole = full.work + full.update
    for unit, kept in none.kept.items():
        assert moved.cost[unit] == pytest.approx(4.0 * (kept - full.kept[unit]) / whole)
    assert moved.kept == full.kept


@pytest.mark.parametrize("policy", ["full@2", "full@stage"])
def test_what_segments_need_follows_from_none_and_full(policy):
    units = simulation()[0].units
    none, full, real = (needs(said, 2, 160, 192) for said in ("none", "full", policy))
    found = full.joined(none, segments(policy, units))
    assert found.kept == pytest.approx(real.kept, rel=1e-3, abs=1024)
    assert found.forward == pytest.approx(real.forward, rel=0.02)
    assert sum(found.cost.values()) == pytest.approx(sum(real.cost.values()), rel=0.05)
    for unit, most in found.backward.items():  # no less, and little more
        assert 0.97 * real.backward[unit] <= most <= 1.15 * real.backward[unit], unit


def test_what_is_handed_on_counts_to_the_unit_that_is_given_it():
    """`full` keeps the input only, whatever made it."""
    found, pixels = needs("full", 1, 128, 128), 128 * 128
    assert found.kept["stem"] < 1024  # its input is the image
    assert found.kept["stage1.0"] > pixels
