"""Parts of a step that are recorded once and noted again."""

import pytest
import torch

from hires.memory.meter import Recorder
from hires.memory.passages import Passages
from hires.memory.timeline import Place


def recorded(*parts):
    """The timeline of parts of a step that follow one another, each within the recorder."""
    recorder = Recorder(torch.device("cpu"))
    with recorder:
        for part in parts:
            part(recorder)
    return recorder


def update(recorder):
    recorder.place = Place("optimizer")
    first = torch.ones(1000)
    second = first + 1
    del first
    torch.mm(second.reshape(10, 100), second.reshape(100, 10))
    del second
    recorder.place = Place("update")


def forward(recorder):
    recorder.place = Place("forward", "stem")
    recorder.kept = torch.ones(50)


def facts(recorder):
    timeline = recorder.timeline
    return timeline.live(), timeline.places, timeline.work, timeline.events, recorder.place


def test_what_is_noted_again_is_what_would_have_happened():
    passages, runs = Passages(), []

    def part(recorder):
        passages.run("update", lambda: runs.append(update(recorder)), recorder)

    again = recorded(forward, part, forward, part)
    assert len(runs) == 1
    assert facts(again) == facts(recorded(forward, update, forward, update))
    blocks = [(block.size, block.born, block.died, block.place) for block in again.timeline.blocks]
    whole = recorded(forward, update, forward, update).timeline.blocks
    assert sorted(blocks) == sorted((block.size, block.born, block.died, block.place) for block in whole)


def test_other_keys_are_other_passages():
    passages, runs = Passages(), []
    for key in ("one", "other", "one"):
        recorded(lambda recorder, key=key: passages.run(key, lambda: runs.append(update(recorder)), recorder))
    assert len(runs) == 2


def leaves_something(recorder):
    recorder.left = torch.ones(10)


def frees_something(recorder):
    del recorder.kept


@pytest.mark.parametrize("part", [leaves_something, frees_something])
def test_what_changes_what_is_there_is_run_each_time(part):
    passages, runs = Passages(), []
    for _ in range(2):
        recorded(
            forward,
            lambda recorder: passages.run("part", lambda: runs.append(part(recorder)), recorder),
        )
    assert len(runs) == 2
