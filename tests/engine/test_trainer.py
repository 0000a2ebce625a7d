"""The loop: what is saved when, and what stops it."""

import pytest
import torch

from hires.engine.progress import Progress
from hires.engine.trainer import Routine, Trainer
from hires.interfaces import Sample

SAMPLE = Sample(torch.zeros(1, 1, 1, dtype=torch.uint8), {}, "none")


class Saves:
    """A checkpointer that remembers what it was told, with the step of each."""

    def __init__(self, progress):
        self.progress, self.told = progress, []

    def save(self, *names):
        self.told.append((self.progress.step, names))


class Quiet:
    def stepped(self, step): ...

    def trained(self, *args): ...

    def evaluated(self, *args): ...


def trainer(evaluate, losses=(1.0,) * 9, step=0):
    progress = Progress()
    progress.step = step

    def update(samples):
        progress.step += 1
        return {"loss": torch.tensor(losses[progress.step - 1])}

    return Trainer(
        update=update,
        evaluate=evaluate,
        checkpointer=Saves(progress),
        reporter=Quiet(),
        routine=Routine(4, 1, 3, 2, "mIoU", None),
        progress=progress,
    )


def test_steps_are_saved_before_they_are_evaluated():
    loop = trainer(lambda: {"mIoU": 0.5})
    loop.fit([[SAMPLE]] * 4)
    assert loop.checkpointer.told == [
        (2, ("last",)),
        (2, ("last", "best")),
        (3, ("last",)),
        (4, ("last",)),
        (4, ("last",)),
    ]


def test_an_evaluation_that_was_interrupted_is_made_up_for():
    def interrupted():
        raise KeyboardInterrupt

    loop = trainer(interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.fit([[SAMPLE]] * 4)
    assert loop.checkpointer.told == [(2, ("last",))]
    made = []
    resumed = trainer(lambda: made.append(1) or {"mIoU": 0.5}, step=2)
    resumed.fit([[SAMPLE]] * 2)
    assert len(made) == 2
    assert resumed.checkpointer.told[0] == (2, ("last", "best"))


def test_a_finished_evaluation_is_not_made_again():
    made = []
    loop = trainer(lambda: made.append(1) or {}, step=2)
    loop.progress.evaluated_step = 2
    loop.fit([])
    assert not made
