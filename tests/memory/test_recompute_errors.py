"""What cannot be computed again to the same bits is an error that names the unit."""

import copy

import pytest
import torch
from blocks import WIDTH, assert_same
from torch import nn

from hires.interfaces import ConfigError
from hires.memory.checkpointing import apply_policies
from hires.memory.saved import RecomputeError
from hires.memory.units import Unit, find_units


class Adding(nn.Module):
    """Changes the input of a block in place, after the block."""

    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Conv2d(3, WIDTH, 1), nn.Sequential(nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 1))

    def forward(self, x):
        x = self.first(x)
        x += self.block(x)
        return x


def test_an_input_changed_in_place_later_is_an_error():
    network = Adding()
    image = torch.randn(2, 3, 8, 8)
    network(image).sum().backward()  # autograd alone has no need of it
    apply_policies(network, [Unit("stage1.0", "stage1", ("block",))], "full")
    with pytest.raises(RecomputeError, match=r"stage1\.0: a tensor of shape \[2, 8, 8, 8\] .* changed in place"):
        network(image).sum().backward()


def test_exchanged_parameters_are_an_error(trunk):
    apply_policies(trunk, find_units(trunk, trunk.stages()), "full")
    other = {name: value.detach().clone().requires_grad_() for name, value in trunk.named_parameters()}
    loss = torch.func.functional_call(trunk, other, (torch.randn(2, 3, 16, 16),)).sum()
    with pytest.raises(RecomputeError, match="its parameters have been exchanged"):
        loss.backward()


def test_weights_changed_before_the_backward_are_an_error(trunk):
    apply_policies(trunk, find_units(trunk, trunk.stages()), "full")
    loss = trunk(torch.randn(2, 3, 16, 16)).sum()
    with torch.no_grad():
        trunk.blocks[1].conv1.weight.mul_(2)
    with pytest.raises(RecomputeError, match="has been changed in place since it was used"):
        loss.backward()


def test_a_forward_of_others_is_not_thrown_away(trunk):
    trunk.blocks[0].forward = lambda x: x
    with pytest.raises(ConfigError, match=r"stage1\.0: Block has been given another forward"):
        apply_policies(trunk, find_units(trunk, trunk.stages()), "full")


class Failing(nn.Module):
    """Fails when it is run for the second time."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.calls = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), 0

    def forward(self, x):
        self.calls += 1
        y = self.norm(self.conv(x))
        if self.calls == 2:
            raise ValueError("broken")
        return torch.relu(y)


@pytest.mark.parametrize("times", [1, 2])
def test_an_exception_in_a_recompute_leaves_buffers_and_random_numbers(times):
    network = Failing()
    apply_policies(network, [Unit("stage1", "stage1", ("",))], "full")
    loss = network(torch.randn(2, 3, 8, 8)).sum()
    before = copy.deepcopy(dict(network.named_buffers())), torch.get_rng_state()
    with pytest.raises(ValueError, match="broken"):
        loss.backward(retain_graph=True)
    assert_same(before, (dict(network.named_buffers()), torch.get_rng_state()))
    if times == 2:  # the next try is not disturbed
        loss.backward()
        assert network.conv.weight.grad is not None
        assert_same(before, (dict(network.named_buffers()), torch.get_rng_state()))


class Moody(nn.Module):
    """Depends on how often it was called."""

    def __init__(self):
        super().__init__()
        self.conv, self.calls = nn.Conv2d(3, 3, 1), 0

    def forward(self, x):
        self.calls += 1
        return self.conv(x).exp() if self.calls % 2 else self.conv(x).exp().exp()


def test_a_unit_that_does_something_else_the_second_time_is_named():
    network = Moody()
    apply_policies(network, [Unit("stage3.1", "stage3", ("",))], "full")
    loss = (network(torch.randn(1, 3, 4, 4)) ** 2).sum()
    with pytest.raises(RecomputeError, match=r"stage3\.1: run again"):
        loss.backward()


def test_an_input_changed_in_place_is_an_error():
    class Overwriting(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 1)

        def forward(self, x):
            return self.conv(x.mul_(2))

    network = Overwriting()
    apply_policies(network, [Unit("stage1.0", "stage1", ("",))], "full")
    with pytest.raises(RecomputeError, match=r"stage1\.0: it changes its input in place"):
        network(torch.randn(1, 3, 4, 4) + 0)
