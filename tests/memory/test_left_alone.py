"""What policies leave as it is: hooks, names of the state, copies, the network without them, free memory."""

import copy
import gc

import pytest
import torch
from blocks import POLICIES, Trunk, batch_norm

from hires.memory import offload
from hires.memory.checkpointing import apply_policies, remove_policies
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.units import Unit, find_units
from hires.memory.verify import differing_units


def test_hooks_of_others_fire(trunk):
    fired = []
    trunk.blocks[1].register_forward_pre_hook(lambda *_: fired.append("before"))
    trunk.blocks[1].register_forward_hook(lambda *_: fired.append("after"))
    trunk.blocks[1].register_full_backward_hook(lambda *_: fired.append("backward"))
    trunk.head.weight.register_hook(lambda grad: fired.append("gradient"))
    apply_policies(trunk, find_units(trunk, trunk.stages()), "full")
    trunk(torch.randn(2, 3, 16, 16)).sum().backward()
    assert fired == ["before", "after", "gradient", "backward"]


def test_state_dict_keys_do_not_change(trunk, policy):
    before = list(trunk.state_dict())
    apply_policies(trunk, find_units(trunk, trunk.stages()), policy)
    assert list(trunk.state_dict()) == before


@pytest.mark.parametrize("policy", [*POLICIES.values(), "offload"], ids=[*POLICIES, "offload"])
def test_copies_use_their_own_weights(trunk, policy, tmp_path):
    units = find_units(trunk, trunk.stages())
    apply_policies(trunk, units, policy, offload=offload.DiskOffload(tmp_path))
    twin = copy.deepcopy(trunk)
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.zero_()
    image = torch.randn(2, 3, 16, 16)
    twin(image).sum().backward()
    assert all(p.grad is None for p in trunk.parameters())
    assert twin.conv.weight.grad.abs().sum() > 0


def test_policies_come_off(trunk, policy):
    before = {name: dict(module.__dict__) for name, module in trunk.named_modules()}
    apply_policies(trunk, find_units(trunk, trunk.stages()), policy)
    assert any("forward" in module.__dict__ for module in trunk.modules())
    remove_policies(trunk)
    assert {name: module.__dict__.keys() for name, module in trunk.named_modules()} == {
        name: values.keys() for name, values in before.items()
    }


class Ending(Trunk):
    """Ends in a function whose backward needs its result."""

    def forward(self, x):
        return super().forward(x).sigmoid()

    def stages(self):
        return {"all": ("",)}


@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize("policy", ["selective", "full", "full@stage", "offload"])
def test_nothing_is_left_after_a_step(policy, backward, tmp_path, monkeypatch):
    """No cycle keeps activations: memory is as before without the garbage collector."""
    monkeypatch.setattr(offload, "SMALLEST", 2**12)
    network = Ending(batch_norm(0.1))
    units = [Unit("all", "all", ("",))]
    apply_policies(network, units, policy, offload=offload.DiskOffload(tmp_path))
    assert left_alive(network, backward) == 0


def test_nothing_is_left_after_verifying(trunk):
    units = find_units(trunk, trunk.stages())
    gc.disable()
    try:
        with LivePeak(tensors_of(trunk)) as meter:
            differing_units(trunk, units, lambda: trunk(torch.randn(2, 3, 16, 16)))
        assert meter.live == meter.start
    finally:
        gc.enable()


def left_alive(network, backward):
    """Bytes that a step leaves."""
    gc.disable()
    try:
        with LivePeak(tensors_of(network)) as meter:
            loss = network(torch.randn(2, 3, 16, 16)).sum()
            if backward:
                loss.backward()
            del loss
            network.zero_grad()
        return meter.live - meter.start
    finally:
        gc.enable()
