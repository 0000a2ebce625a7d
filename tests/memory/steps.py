"""Training steps of nets, simulated and measured."""

from functools import partial

import torch
from torch import nn

from hires.memory.meter import LivePeak, tensors_of
from hires.memory.simulate import simulate

bfloat16 = partial(torch.autocast, "cpu", torch.bfloat16)
adamw, sgd = (partial(kind, lr=1e-3) for kind in (torch.optim.AdamW, torch.optim.SGD))
momentum = partial(sgd, momentum=0.9)


class Births(LivePeak):
    """Also notes every new storage: its bytes, and all bytes then."""

    def __init__(self, before):
        self.made = []
        super().__init__(before)
        self.made = []

    def born(self, key, size):
        if size:
            self.made.append((size, self.live))


def births(timeline):
    live = timeline.live()
    new = timeline.blocks[len([block for block in timeline.blocks if block.born < timeline.start]) :]
    return [(block.size, live[block.born]) for block in new if block.size]


def measured(module, step, make_optimizer=None):
    """The meter of a real step with the state of the optimizer there."""
    optimizer = make_optimizer and make_optimizer(module.parameters())
    if optimizer:
        for parameter in module.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        optimizer.step()
        optimizer.zero_grad()
    states = optimizer.state.values() if optimizer else ()
    state = [value for values in states for value in values.values() if isinstance(value, torch.Tensor)]
    torch.manual_seed(0)
    with Births([*tensors_of(module), *state]) as meter:
        step(module, optimizer)
    return meter


def simulated(module, step, make_optimizer=None, **more):
    optimizer = make_optimizer and (lambda copied: make_optimizer(copied.parameters()))
    return simulate(step, module, optimizer=optimizer, **more)


def assert_same_memory(module, step, make_optimizer=None):
    profile, meter = simulated(module, step, make_optimizer), measured(module, step, make_optimizer)
    assert profile.live == meter.peak
    assert births(profile.timeline) == meter.made


def stepping(autocast=None, micro_batches=1, clip=None):
    """A step of a net that returns a loss."""

    def step(net, optimizer):
        for _ in range(micro_batches):
            if autocast is None:
                net().backward()
            else:
                with autocast():
                    loss = net()
                loss.backward()
                del loss
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()

    return step
