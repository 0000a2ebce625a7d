"""A step that failed leaves no trace, whatever the optimizer; one that changed parameters is told."""

import copy

import pytest
import torch
from timm.optim import create_optimizer_v2
from torch import nn

from hires.engine.undo import BufferCopies, Undo, UpdateNote


class Caches(nn.Module):
    """Buffers that a forward changes in place, replaces, and grows."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("count", torch.zeros(()), persistent=False)
        self.register_buffer("nothing", None)

    def forward(self, x):
        self.count = self.count + 1
        return self.norm(x)


def buffers(module):
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in one.items())


def test_buffers_are_what_and_where_they_were():
    module = Caches()
    copies = BufferCopies(module)
    x = torch.randn(4, 3)
    for _ in range(3):
        copies.note()
        before, tensors = buffers(module), dict(module.named_buffers())
        module(x)
        module(x)
        assert not equal(buffers(module), before)
        copies.restore()
        assert equal(buffers(module), before)
        assert all(buffer is tensors[name] for name, buffer in module.named_buffers())
        module(x)


def test_copies_keep_their_memory():
    module = Caches()
    copies = BufferCopies(module)
    places = []
    for _ in range(2):
        copies.note()
        places.append([buffer.copy.data_ptr() for buffer in copies._buffers.values()])
        module(torch.randn(4, 3))
    assert places[0] == places[1]
    module.count = torch.zeros(5)  # has grown
    copies.note()
    module.count.fill_(1)
    copies.restore()
    assert not module.count.any()


def make(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    return model, create_optimizer_v2(model, opt=name, lr=0.1, weight_decay=0.05, momentum=0.9)


def backward(model):
    model.zero_grad()
    model(torch.ones(3, 4)).square().sum().backward()


@pytest.mark.parametrize(
    "name", ["sgd", "adamw", "lamb", "lion", "adafactor", "lookahead_adamw", "muon", "nadamw"]
)
def test_a_step_counts_as_a_change_and_state_of_before_as_none(name):
    model, optimizer = make(name)
    for step in range(2):
        backward(model)
        note = UpdateNote(optimizer)
        assert not note.has_begun
        state = copy.deepcopy(optimizer.state_dict())
        for parameter in model.parameters() if step == 0 else ():
            optimizer.state[parameter]["half"] = torch.zeros(2)  # begun, as where memory runs out for the state
        optimizer.param_groups[0]["lr"] = 7
        note.restore()
        assert repr(optimizer.state_dict()) == repr(state)
        optimizer.step()
        assert note.has_begun


def test_state_alone_may_have_changed():
    model, optimizer = make("adamw")
    backward(model)
    optimizer.step()
    note = UpdateNote(optimizer)
    optimizer.state[model[0].weight]["exp_avg"].mul_(0.9)
    assert note.has_begun


def test_undo_drops_gradients_and_brings_random_numbers_back():
    model, optimizer = make("sgd")
    undo = Undo(model, optimizer, None)
    undo.note()
    expected = torch.rand(3)
    backward(model)
    assert undo.undo()
    assert torch.equal(torch.rand(3), expected)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_changed_parameter_cannot_be_undone():
    model, optimizer = make("sgd")
    undo = Undo(model, optimizer, None)
    undo.note()
    backward(model)
    with torch.no_grad():
        model[1].bias.add_(1)
    assert not undo.undo()
