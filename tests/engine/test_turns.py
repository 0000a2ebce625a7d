"""Trainings that take turns do what each would do alone."""

import random
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from hires.engine.progress import Progress
from hires.engine.step import Updater, train_step
from hires.engine.turns import Turns
from hires.interfaces import Sample

SAMPLES = [Sample(torch.full((1, 2, 2), 7, dtype=torch.uint8), {}, "a")]


class Noisy(nn.Module):
    """A task whose loss draws from every generator."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def normalizers(self, targets) -> dict[str, Tensor]:
        return {}

    def forward(self, batch, normalizers) -> dict[str, Tensor]:
        noise = torch.rand(3) + random.random() + float(np.random.rand())
        return {"one": (self.weight * noise).sum(), "two": self.weight[0]}


def seeded() -> Turns:
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(3)
    task = Noisy()
    step = partial(train_step, task, optimizer=torch.optim.SGD(task.parameters(), lr=0.1), micro_batch_size=1)
    rest = {"schedule": lambda step: None, "average": lambda step: None}
    return Turns(Updater(step=step, progress=Progress(), **rest))


def weight_of(turns: Turns) -> nn.Parameter:
    task: Noisy = turns.update.step.args[0]  # type: ignore[attr-defined]
    return task.weight


def test_turns_do_not_disturb_one_another():
    alone = seeded()
    for _ in range(3):
        alone.step(SAMPLES)
    one, other = seeded(), seeded()
    torch.rand(5)
    for first, second in ((one, other), (other, one), (one, other)):
        first.step(SAMPLES)
        second.step(SAMPLES)
    assert len(set(alone.losses)) == 3
    assert one.losses == other.losses == alone.losses
    assert torch.equal(weight_of(one), weight_of(alone))


def test_gradients_stay_and_nothing_else_happens():
    turns = seeded()
    turns.step(SAMPLES)
    weight = weight_of(turns).detach().clone()
    assert weight_of(turns).grad is None
    turns.leave_gradients(SAMPLES)
    assert torch.equal(weight_of(turns), weight)
    assert weight_of(turns).grad is not None
    assert (len(turns.losses), turns.update.progress.step) == (1, 1)


def test_the_first_step_does_not_count():
    turns = seeded()
    turns.seconds = [9.0]
    assert turns.median() is None
    assert turns.found(1.0)["ratio"] is None
    turns.seconds = [9.0, 2.0, 4.0, 3.0]
    assert turns.median() == 3.0
    assert turns.found(1.5)["ratio"] == 2.0
    assert turns.found(None)["ratio"] is None
