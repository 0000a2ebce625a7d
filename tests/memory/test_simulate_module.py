"""A simulation leaves the module alone and takes no memory; what its profiles say of units and of the peak."""

import copy
from functools import partial

import pytest
import torch
from nets import WIDTH, BatchNormAndDropout, Net, Residual, conv
from steps import adamw, births, momentum, simulated, stepping
from torch import nn

from hires.memory.checkpointing import apply_policies
from hires.memory.simulate import Simulation, simulate
from hires.memory.timeline import ACTIVATIONS, PARAMETERS, STATE
from hires.memory.units import Unit


def test_the_module_stays_as_it_is():
    net = BatchNormAndDropout()
    net.tables = [torch.ones(3)]
    net().backward()
    before, random = copy.deepcopy(net), torch.get_rng_state()
    gradients = [parameter.grad.clone() for parameter in net.parameters()]
    simulated(net, stepping(), adamw)
    assert torch.equal(random, torch.get_rng_state())
    assert net.state_dict().keys() == before.state_dict().keys()
    for (name, one), (_, other) in zip(net.named_parameters(), before.named_parameters(), strict=True):
        assert torch.equal(one, other), name
    assert all(torch.equal(p.grad, before) for p, before in zip(net.parameters(), gradients, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(net.buffers(), before.buffers(), strict=True))
    pairs = zip(net.modules(), before.modules(), strict=True)
    assert all(module.__dict__.keys() == twin.__dict__.keys() for module, twin in pairs)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    assert type(net.tables[0]) is torch.Tensor


def test_a_module_without_memory():
    with torch.device("meta"):
        there_is_none = BatchNormAndDropout()
    one, other = (simulated(net, stepping(), adamw) for net in (there_is_none, BatchNormAndDropout()))
    assert births(one.timeline) == births(other.timeline)
    assert (one.live, one.categories) == (other.live, other.categories)


def test_takes_no_memory():
    """Not even where a step needs more than there is."""

    def step(net, _):
        net.layers(torch.randn(2**20, 2**12)).mean().backward()

    profile = simulate(step, Net(nn.Linear(2**12, 2**12)))
    assert profile.live > 2**34


def test_tensors_of_a_module_that_are_no_parameters():
    class Tabled(Net):
        def __init__(self):
            super().__init__(conv(3))
            self.mask = torch.tensor([True, False] * 4)

        def result(self, image):
            return self.layers(image)[:, self.mask]

    profile = simulate(lambda net, _: net().backward(), Tabled())
    assert 2 * 4 * 16 * 16 * 4 in [size for size, _ in births(profile.timeline)]


def test_the_same_twice():
    simulation = Simulation(BatchNormAndDropout())
    optimizer = simulation.optimizer(lambda net: adamw(net.parameters()))
    step = partial(stepping(), simulation.module, optimizer)
    first, second = (simulation.profile(step, optimizer=optimizer) for _ in range(2))
    assert births(first.timeline) == births(second.timeline)


def test_nothing_stays_patched():
    backward, random = torch.autograd.backward, torch.initial_seed()

    def fails(net, _):
        net()
        raise KeyError

    with pytest.raises(KeyError):
        simulate(fails, Net(conv(3)))
    assert torch.autograd.backward is backward
    assert torch.initial_seed() == random
    net = Residual()
    net().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


UNITS = [Unit("stage1.0", "stage1", ("layers.0",)), Unit("stage1.1", "stage1", ("layers.1",))]


def two_units(width):
    """The second makes tensors of `width` channels."""
    block = nn.Sequential(conv(WIDTH, width), nn.ReLU(), conv(width, WIDTH), nn.BatchNorm2d(WIDTH))
    return Net(nn.Sequential(conv(3), nn.ReLU(), conv(WIDTH), nn.ReLU()), block)


def profiles_of(net):
    found = {}
    for policy in ("none", "full"):
        simulation = Simulation(net, "cpu", UNITS)
        apply_policies(simulation.module, UNITS, policy)
        optimizer = simulation.optimizer(lambda module: adamw(module.parameters()))
        step = partial(stepping(), simulation.module, optimizer)
        found[policy] = simulation.profile(step, optimizer=optimizer)
    return found


def test_what_units_keep_and_compute_again():
    found = profiles_of(two_units(WIDTH))
    none, full = found["none"], found["full"]
    image = 2 * WIDTH * 16 * 16 * 4
    assert not none.recomputed()
    for unit in UNITS:
        # its input, and of the last its output, which no unit is given; 256: buffers before the call
        given = 2 * image if unit is UNITS[-1] else image
        assert full.kept().get(unit.name, 0) < given + 256 < none.kept()[unit.name]
        work = none.timeline.work
        share = work["forward", unit.name] / sum(work.values())
        assert full.recomputed()[unit.name] == pytest.approx(share, rel=0.35)
    assert full.live < none.live


def test_the_peak_and_what_it_is_made_of():
    net = two_units(40 * WIDTH)
    profile = profiles_of(net)["none"]
    assert profile.peak_at.unit == "stage1.1"
    assert sum(profile.categories.values()) == profile.live == profile.allocated
    parameters = sum(tensor.numel() * tensor.element_size() for tensor in (*net.parameters(), *net.buffers()))
    assert profile.categories[PARAMETERS] == parameters
    sizes = [parameter.numel() for parameter in net.parameters()]
    assert profile.categories[STATE] == 4 * (2 * sum(sizes) + len(sizes))  # two averages and the number of steps
    assert profile.categories[ACTIVATIONS] > 2 * 40 * WIDTH * 16 * 16 * 4


def test_a_timeline_ends_with_its_step():
    net = nn.Linear(4, 4)
    profile = simulate(lambda net, _: net(torch.ones(2, 4)).sum().backward(), net)
    assert profile.timeline.live()[-1] >= 4 * (16 + 4)


def test_a_step_is_the_same_each_time():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("count", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            self.count.add_(1)
            return self.weight.repeat(int(self.count)) * x.repeat(int(self.count))

    simulation = Simulation(Counting())

    def step():
        simulation.module(torch.ones(4)).sum().backward()
        simulation.module.weight.grad = None

    peaks = [simulation.profile(step).live for _ in range(3)]
    assert len(set(peaks)) == 1


class Several:
    """Optimizers as one, as simulate() asks for."""

    def __init__(self, *parts):
        self.parts = parts

    @property
    def param_groups(self):
        return [group for part in self.parts for group in part.param_groups]

    @property
    def state(self):
        return {parameter: state for part in self.parts for parameter, state in part.state.items()}

    def step(self):
        for part in self.parts:
            part.step()

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()


def test_several_optimizers():
    def make(net):
        return Several(momentum([net.weight]), adamw([net.bias]))

    def step(net, optimizers):
        net(torch.ones(2, 4)).sum().backward()
        for part in optimizers.parts:
            part.step()

    profile = simulate(step, nn.Linear(4, 4), optimizer=make)
    assert profile.categories[STATE] == 4 * (16 + 2 * 4 + 1), "adamw also counts its steps"
