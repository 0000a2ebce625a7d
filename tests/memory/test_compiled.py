"""Under torch.compile policies are PyTorch's own: compared with the same backend without policies."""

import copy

import pytest
import torch
from blocks import Trunk, assert_same, batch_norm, train

BACKEND = "aot_eager"  # the graphs that inductor would get, without a compiler


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("policy", ["full", pytest.param("full@2", marks=pytest.mark.slow), "selective"])
def test_compiled_policies_change_nothing(policy):
    torch.manual_seed(0)
    network = Trunk(batch_norm(0.1))
    for block in network.blocks:  # random numbers of compiled recomputes are the compiler's business
        block.drop.p = block.drop_path.drop_prob = 0.0

    def wrap(module):
        return torch.compile(module, backend=BACKEND)

    expected = train(network, wrap=wrap)
    torch._dynamo.reset()
    assert_same(expected, train(network, policy, wrap=wrap))


def test_statistics_are_counted_once():
    torch.manual_seed(0)
    network = copy.deepcopy(Trunk(batch_norm(0.1)))
    state = train(network, "full", steps=1, wrap=lambda module: torch.compile(module, backend=BACKEND)).state
    assert {int(value) for key, value in state.items() if key.endswith("num_batches_tracked")} == {1}
