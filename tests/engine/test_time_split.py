"""Where the time of a training goes, by a clock that only the work moves on."""

import pytest
import torch

from hires.engine.progress import Stopwatch
from hires.engine.time_split import TimeSplit


class Clock:
    """Stands for the module `time`."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def work(self, seconds, result=None):
        self.now += seconds
        return result


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("hires.engine.time_split.time", made)
    monkeypatch.setattr("hires.engine.progress.time", made)
    return made


def update_of(split, clock, micro_batches=2):
    """Forwards of 2 s, backwards of 3 s, an exchange of 1 s, clipping and update of 4 s."""
    backward = split.backward(lambda loss: clock.work(3, "done"))
    clip = split.clip(lambda: clock.work(1, "clipped"))

    def update(samples):
        for _ in range(micro_batches):
            clock.work(2)
            assert backward(None) == "done"
        clock.work(1)
        assert clip() == "clipped"
        clock.work(3)
        return {"loss": torch.tensor(float(len(samples)))}

    return split.watching(update)


def test_parts_of_a_step(clock):
    split = TimeSplit()
    update = update_of(split, clock)
    for _ in range(99):
        assert float(update([1, 2])["loss"]) == 2
    found = split.found()
    assert (found["steps"], found["steps_sampled"]) == (99, 3)
    assert found["seconds"] == pytest.approx(
        {"forward": 99 * 4, "backward": 99 * 6, "exchange": 99, "optimizer": 99 * 4}
    )


def test_the_device_is_waited_for_in_sampled_steps_alone(clock):
    waits, left_out = [], []
    split = TimeSplit(lambda: waits.append(split.steps))
    split.leave_out = left_out.append
    update = update_of(split, clock, micro_batches=1)
    for _ in range(100):
        update([1])
    assert set(waits) == {3, 4, 5, 100}
    assert left_out == [10.0] * 4


def test_without_a_device_to_wait_for_every_step_counts(clock):
    split, left_out = TimeSplit(), []
    split.leave_out = left_out.append
    update = update_of(split, clock)
    for _ in range(5):
        update([1])
    assert not left_out


def test_what_is_not_a_step(clock):
    split = TimeSplit()

    class Saves:
        folder = "here"

        def save(self, *names):
            return clock.work(2, names)

    saves = split.saves(Saves())
    assert saves.save("last", "best") == ("last", "best")
    assert saves.folder == "here"

    def fail():
        clock.work(1)
        raise OSError("full")

    with pytest.raises(OSError, match="full"), split.of("saving"):
        fail()
    with split.of("evaluation"):
        clock.work(5)
    assert split.found()["seconds"] == {"steps": 0.0, "saving": 3.0, "evaluation": 5.0}


def test_a_step_that_was_begun_anew_is_not_split(clock):
    """As when memory runs out: the second backward ends after what was taken for the update."""
    split = TimeSplit()
    backward, clip = split.backward(lambda: clock.work(1)), split.clip(lambda: clock.work(1))

    def update(samples):
        backward()
        clip()
        backward()
        return {}

    watched = split.watching(update)
    for _ in range(5):
        watched([1])
    assert split.found() == {"seconds": {"steps": 15.0}, "steps": 5, "steps_sampled": 0}


def test_a_step_that_is_left_out_does_not_change_the_pace(clock):
    watch = Stopwatch()
    for _ in range(Stopwatch.WARMUP_STEPS):
        watch.stepped()
    for step in range(10):
        if step == 4:
            clock.work(50)
            watch.leave_out(50)
        else:
            clock.work(2)
        watch.stepped()
    assert watch.read() == 2.0
    assert watch.median() == 2.0
