"""A policy is one function, from a unit's module to what runs in another way."""

import copy

import pytest
import torch
from blocks import Trunk, assert_same, batch_norm, train
from torch import nn

from hires.interfaces import ConfigError
from hires.memory.checkpointing import apply_policies
from hires.memory.forwards import keep_input
from hires.memory.kinds import KINDS
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.policies import parse_policy
from hires.memory.units import find_units


def pairs(module):
    """Two layers in a row run again; all else is kept."""
    return ((part, keep_input) for part in module.modules() if isinstance(part, nn.Sequential))


@pytest.fixture
def trunk():
    """Blocks with an activation function in two parts, which keeps a tensor between them."""
    torch.manual_seed(0)
    return Trunk(batch_norm(0.1), lambda: nn.Sequential(nn.SiLU(), nn.Tanh()))


def live_after_forward(network, policy):
    """Bytes that a forward leaves for the backward."""
    network = copy.deepcopy(network)
    apply_policies(network, find_units(network, network.stages()), policy)
    with LivePeak(tensors_of(network)) as meter:
        loss = network(torch.ones(2, 3, 64, 64)).sum()
        live = meter.live - meter.start
        del loss
    return live


def test_a_policy_in_the_table_is_one_like_the_others(trunk, monkeypatch):
    with pytest.raises(ConfigError, match="got pairs"):
        parse_policy("pairs")
    monkeypatch.setitem(KINDS, "pairs", pairs)
    assert str(parse_policy("pairs")) == "pairs"
    expected = train(trunk)
    assert_same(expected, train(trunk, "pairs"))
    assert_same(expected, train(trunk, {"stage1.1": "pairs", "stage1.2-3": "full@2"}))
    assert (
        live_after_forward(trunk, "full") < live_after_forward(trunk, "pairs") < live_after_forward(trunk, "none")
    )
