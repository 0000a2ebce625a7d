"""Mixes of policies from homogeneous steps, and the cheapest of them within a budget."""

import random
from functools import cache

import pytest
import torch
from blocks import Trunk, batch_norm
from torch.nn import functional as F

from hires.memory.checkpointing import apply_policies
from hires.memory.mixtures import Mixtures, fit, overhead_of
from hires.memory.needs import needs_of
from hires.memory.optimal import front
from hires.memory.policies import parse_policy, policies_of, shortened
from hires.memory.simulate import Simulation
from hires.memory.units import Unit, find_units

POLICIES = ("none", "selective", "full", "full@2", "full@stage")


@cache
def simulation():
    torch.manual_seed(0)
    trunk = Trunk(batch_norm(0.1))
    units = find_units(trunk, trunk.stages())
    made = Simulation(trunk, "cpu", units)
    return made, made.optimizer(lambda module: torch.optim.SGD(module.parameters(), lr=0.1))


def profile(said):
    made, optimizer = simulation()
    apply_policies(made.module, made.units, said)

    def step():
        images = torch.rand(4, 3, 64, 64)
        F.mse_loss(made.module(images), torch.zeros(4, 2, 32, 32), reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()

    return made.profile(step, optimizer=optimizer)


@cache
def homogeneous():
    return {policy: profile(policy) for policy in POLICIES}


def mixtures():
    units = simulation()[0].units
    return Mixtures(
        units, {name: needs_of(profile, [u.name for u in units]) for name, profile in homogeneous().items()}
    )


def fitting(budget):
    return fit(mixtures(), profile, budget, overhead=overhead_of(homogeneous()), known=homogeneous())


def test_what_a_mix_needs():
    """Peaks of random mixes follow from homogeneous steps."""
    units, draw = [unit.name for unit in simulation()[0].units], random.Random(0)
    by_name = [{option.name: option for option in options} for options in mixtures().options]
    for _ in range(5):
        mix = {unit: draw.choice(("none", "selective", "full")) for unit in units}
        before = peak = 0
        for options, policy in zip(by_name, mix.values(), strict=True):
            peak = max(peak, before + options[policy].forward, before + options[policy].backward)
            before += options[policy].kept
        assert max(peak, mixtures().rest) == pytest.approx(profile(mix).timeline.peak()[0], rel=0.05)


def test_the_front_is_what_it_says():
    for plan in front(mixtures().options)[::5]:
        found = profile(mixtures().policies(plan))
        assert max(plan.peak, mixtures().rest) == pytest.approx(found.timeline.peak()[0], rel=0.05)
        assert plan.cost == pytest.approx(sum(found.recomputed().values()), abs=0.01)


def test_the_cheapest_within_a_budget():
    none, full = homogeneous()["none"], homogeneous()["full"]
    budget = (none.reserved + full.reserved) // 2
    policies, found = fitting(budget)
    assert found.reserved <= budget
    assert 0 < sum(found.recomputed().values()) < sum(full.recomputed().values())
    assert set(policies.values()) > {"none"} or len(set(policies.values())) > 1


@pytest.mark.parametrize("budget", [0, 2**40])
def test_no_room_and_all_room(budget):
    policies, found = fitting(budget)
    if budget:
        assert set(policies.values()) == {"none"}
    else:
        assert found.reserved <= min(other.reserved for other in homogeneous().values())


def test_shortened_policies_mean_the_same():
    units = [Unit(f"{stage}.{i}", stage, ()) for stage in ("stage1", "stage2") for i in range(3)]
    units += [Unit("head", "head", ())]
    draw = random.Random(1)
    for _ in range(50):
        said = {unit.name: parse_policy(draw.choice(("none", "full", "selective"))) for unit in units}
        assert policies_of(shortened(said, units), units) == said
    mixed = {unit.name: parse_policy("full@stage" if unit.stage == "stage2" else "none") for unit in units}
    assert shortened(mixed, units) == {"stage2": "full@stage"}
