"""Parts of a step that are the same in every step: what they do to memory is recorded once and then repeated."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from hires.memory.meter import Recorder
from hires.memory.timeline import Block, Place


@dataclass(frozen=True)
class Passage:
    """A part of a step that frees all that it makes, and nothing else; events count from its first."""

    events: int
    blocks: list[Block]
    places: list[tuple[int, Place]]
    work: dict[Place, float]
    end: Place

    def repeat(self, recorder: Recorder) -> None:
        """Notes it once more."""
        timeline, first = recorder.timeline, recorder.timeline.events
        timeline.places += [(event + first, place) for event, place in self.places]
        timeline.blocks += [_moved(block, first) for block in self.blocks]
        timeline.events += self.events
        for place, done in self.work.items():
            timeline.work[place] = timeline.work.get(place, 0.0) + done
        recorder.place = self.end


def _moved(block: Block, by: int) -> Block:
    assert block.died is not None
    return Block(block.size, block.born + by, block.place, block.category, block.died + by)


class Passages:
    """Passages by what they depend on."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Passage] = {}

    def run(self, key: Hashable, run: Callable[[], Any], recorder: Recorder) -> None:
        """Runs what is recorded the first time, or repeats what it did then."""
        if key in self._known:
            self._known[key].repeat(recorder)
        elif (passage := _recorded(run, recorder)) is not None:
            self._known[key] = passage


def _recorded(run: Callable[[], Any], recorder: Recorder) -> Passage | None:
    """What is run; None when it leaves something behind, or frees what was there."""
    timeline = recorder.timeline
    first, blocks, places, work = timeline.events, len(timeline.blocks), len(timeline.places), timeline.work
    timeline.work = {}
    try:
        run()
    finally:
        done, timeline.work = timeline.work, work
        for place, some in done.items():
            work[place] = work.get(place, 0.0) + some
    made, events = timeline.blocks[blocks:], timeline.events - first
    if events != 2 * len(made) or any(block.died is None for block in made):
        return None
    return Passage(
        events=events,
        blocks=[_moved(block, -first) for block in made],
        places=[(event - first, place) for event, place in timeline.places[places:]],
        work=done,
        end=recorder.place,
    )
