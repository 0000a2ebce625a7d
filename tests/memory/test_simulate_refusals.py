"""Steps that cannot be simulated, and what of torch simulations stand on."""

import sys

import pytest
import torch
from nets import Net, conv
from torch import nn

from hires.memory.simulate import simulate
from hires.memory.simulate_values import SimulationError
from hires.memory.units import Unit

CPU = torch.device("cpu")


def test_private_parts_of_torch_are_where_they_were():
    """A release of torch that moves them is to fail here first."""
    node = torch.ones(1, requires_grad=True).mul(2).grad_fn
    assert torch.autograd._get_sequence_nr() == node._sequence_nr() + 1
    (metadata,) = node._input_metadata
    assert (tuple(metadata.shape), metadata.dtype, metadata.device) == ((1,), torch.float32, CPU)
    storage = torch.ones(1).untyped_storage()
    assert torch._C._storage_Use_Count(storage._cdata) == 1
    assert callable(torch._C._current_graph_task_id)
    assert callable(torch.autograd.function.FunctionCtx.set_materialize_grads)
    assert {"__init__", "__exit__"} <= vars(torch.autograd.graph.saved_tensors_hooks).keys()
    assert isinstance(torch.ops.aten.is_non_overlapping_and_dense(torch.ones(2, 2)), bool)


@pytest.mark.parametrize("more", [{"create_graph": True}, {"inputs": []}])
def test_a_backward_that_cannot_be_followed(more):
    net = Net(conv(3))
    with pytest.raises(SimulationError, match="create_graph or inputs"):
        simulate(lambda net, _: net().backward(**more), net)


def test_two_graphs_made_in_turns_are_refused():
    """Of saved tensors it is known by their numbers whose they are: those of two graphs in turns are mixed up."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.q = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def step(net, _):
        a, b = net.p.exp(), net.q.exp()
        a, b = a.exp(), b.exp()
        first, second = a.sum(), b.sum()
        first.backward()
        second.backward()

    with pytest.raises(SimulationError, match="made in turns"):
        simulate(step, Two())


def test_a_backward_of_nothing_is_refused():
    with pytest.raises(SimulationError, match="nothing trainable"):
        simulate(lambda net, _: torch.ones(3).sum().backward(), nn.Linear(2, 2))


def test_no_hook_stays_when_a_unit_does_not_exist():
    before = len(optimizer_hooks())
    with pytest.raises(AttributeError):
        simulate(lambda net, _: None, nn.Linear(2, 2), units=[Unit("stage1", "stage1", ("nothing",))])
    assert len(optimizer_hooks()) == before


def optimizer_hooks():
    return sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks


def test_an_optimizer_that_needs_a_closure_is_refused():
    net = nn.Linear(4, 4)
    with pytest.raises(SimulationError, match="the step of LBFGS needs a closure") as told:
        simulate(lambda net, _: None, net, optimizer=lambda net: torch.optim.LBFGS(net.parameters()))
    assert "\n" not in str(told.value)
