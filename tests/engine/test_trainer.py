"""The loop: what is saved when, and what stops it."""

import errno
import signal

import pytest
import torch

from hires.engine.checkpointer import Checkpointer, read
from hires.engine.progress import Progress
from hires.engine.stopping import Stopping
from hires.engine.trainer import Routine, Trainer
from hires.interfaces import Interrupted, Sample

SAMPLE = Sample(torch.zeros(1, 1, 1, dtype=torch.uint8), {}, "none")


class Saves:
    """A checkpointer that remembers what it was told, with the step of each."""

    def __init__(self, progress):
        self.progress, self.told = progress, []

    def save(self, *names):
        self.told.append((self.progress.step, names))

    def gives_up(self, name):
        return False


class Full(Checkpointer):
    """Finds no room at step 2."""

    def _write(self, state, *names):
        if state["progress"]["step"] == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        super()._write(state, *names)


class Quiet:
    def stepped(self, step): ...

    def trained(self, *args): ...

    def evaluated(self, *args): ...


def trainer(evaluate, losses=(1.0,) * 9, step=0, signals=None, **routine):
    """`signals` are sent by number of step."""
    progress = Progress()
    progress.step = step

    def update(samples):
        progress.step += 1
        if progress.step in (signals or {}):
            signal.raise_signal(signals[progress.step])
        return {"loss": torch.tensor(losses[progress.step - 1])}

    return Trainer(
        update=update,
        evaluate=evaluate,
        checkpointer=Saves(progress),
        reporter=Quiet(),
        routine=Routine(4, 1, 3, 2, "mIoU", None, **routine),
        progress=progress,
        stopping=Stopping(),
    )


def test_a_best_one_that_was_not_saved_does_not_count(tmp_path):
    """No checkpoint says that it is there, and a later one that is less good takes its place."""
    loop = trainer(lambda: {"mIoU": 0.9 if loop.progress.step == 2 else 0.7})
    loop.checkpointer = Full(tmp_path, {"progress": loop.progress})
    loop.fit([[SAMPLE]] * 3)
    assert read(tmp_path / "last.pt")["progress"]["best_step"] == 0
    assert not (tmp_path / "best.pt").exists()
    loop.fit([[SAMPLE]])
    assert (loop.progress.best, loop.progress.best_step) == (0.7, 4)
    assert read(tmp_path / "best.pt")["progress"]["step"] == 4
    loop.checkpointer.raise_failed()


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


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_signal_ends_the_training_after_its_step(step):
    """Saved at once and not evaluated: that is made up for by whoever resumes."""
    made = []
    loop = trainer(lambda: made.append(1) or {"mIoU": 0.5}, signals={step: signal.SIGTERM})
    with loop.stopping, pytest.raises(Interrupted) as caught:
        loop.fit([[SAMPLE]] * 4)
    assert caught.value.code == 143
    assert loop.progress.step == step
    assert loop.checkpointer.told[-1] == (step, ("last",))
    assert len(made) == (1 if step == 4 else 0)  # that of step 2
    resumed = trainer(lambda: made.append(2) or {"mIoU": 0.5}, step=step)
    resumed.fit([[SAMPLE]] * (4 - step))
    assert made.count(2) == (1 if step == 4 else 2)


def test_an_evaluation_that_is_asked_to_end_leaves_the_checkpoint_before_it():
    def evaluate():
        signal.raise_signal(signal.SIGINT)
        loop.stopping.settle()

    loop = trainer(evaluate)
    with loop.stopping, pytest.raises(Interrupted):
        loop.fit([[SAMPLE]] * 4)
    assert loop.checkpointer.told == [(2, ("last",))]
    assert loop.progress.evaluated_step == 0


@pytest.mark.parametrize(("minutes", "steps"), [(0, [1, 2, 3, 4]), (60, [2, 3, 4]), (None, [2, 3, 4])])
def test_time_saves_too(minutes, steps):
    loop = trainer(lambda: {}, checkpoint_minutes=minutes)
    loop.fit([[SAMPLE]] * 4)
    assert list(dict.fromkeys(step for step, _ in loop.checkpointer.told)) == steps


def test_time_counts_from_the_last_checkpoint(monkeypatch):
    """Not from the beginning: with steps of 40 s, every second one is due."""
    loop = trainer(lambda: {}, checkpoint_minutes=1)
    loop.routine = Routine(8, 1, 100, None, "mIoU", None, checkpoint_minutes=1)
    now = [0.0]
    update = loop.update

    def slow(samples):
        now[0] += 40
        return update(samples)

    loop.update = slow
    monkeypatch.setattr("hires.engine.trainer.time.monotonic", lambda: now[0])
    loop.fit([[SAMPLE]] * 7)
    assert [step for step, _ in loop.checkpointer.told] == [2, 4, 6]
