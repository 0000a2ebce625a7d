"""What a step has in memory, moment by moment: every block from its birth to its death, and where in the step."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

PARAMETERS, GRADIENTS, STATE, AVERAGE = "parameters", "gradients", "optimizer state", "EMA"
INPUTS, ACTIVATIONS, RECOMPUTED, LOSS = "inputs and targets", "activations", "recomputed", "loss"
TEMPORARIES, WORKSPACE, BUCKETS = "temporaries", "kernel workspace", "gradient buckets"
CATEGORIES = (
    PARAMETERS,
    GRADIENTS,
    STATE,
    AVERAGE,
    INPUTS,
    ACTIVATIONS,
    RECOMPUTED,
    LOSS,
    TEMPORARIES,
    WORKSPACE,
    BUCKETS,
)
"""What memory is for, in the order in which charts stack it; parameters include buffers."""


class Place(NamedTuple):
    """Where in a step: `input`, `forward`, `backward`, `recompute`, `update`, `optimizer`; in which unit."""

    phase: str
    unit: str | None = None


@dataclass(slots=True)
class Block:
    """A storage. It is there from event `born` on until event `died`; None: it outlives the step."""

    size: int  # bytes
    born: int
    place: Place
    category: str | None = None  # None: follows from its life
    died: int | None = None
    user: str | None = None  # the first other unit that is given it


@dataclass
class Timeline:
    """The blocks of a step; events are their births and deaths, counted from 0."""

    blocks: list[Block] = field(default_factory=list)
    places: list[tuple[int, Place]] = field(default_factory=list)  # from which event on the step is there
    work: dict[Place, float] = field(default_factory=dict)  # of kernels, in units of the time that a flop takes
    events: int = 0
    start: int = 0  # births before it are of what was there before the step

    def arrive(self, place: Place) -> None:
        """From here on, the step is at a place."""
        if not self.places or self.places[-1][1] != place:
            self.places.append((self.events, place))

    def add(self, size: int, place: Place, category: str | None = None) -> Block:
        """A block that is there from now on."""
        self.arrive(place)
        block = Block(size, self.events, place, category)
        self.blocks.append(block)
        self.events += 1
        return block

    def end(self, block: Block) -> None:
        """A block is there no more."""
        block.died = self.events
        self.events += 1

    def passing(self, size: int, place: Place, category: str) -> None:
        """A block that is gone at once."""
        self.end(self.add(size, place, category))

    def ordered(self) -> Iterator[tuple[Block, bool]]:
        """Births (True) and deaths (False) of blocks, event by event."""
        found: list[tuple[Block, bool] | None] = [None] * self.events
        for block in self.blocks:
            found[block.born] = (block, True)
            if block.died is not None:
                found[block.died] = (block, False)
        return (event for event in found if event is not None)

    def live(self, without: Iterable[str] = ()) -> list[int]:
        """Bytes after each event, all but those of some categories."""
        left_out = set(without)
        return _totals(self.events, (b for b in self.blocks if not left_out or self.category(b) not in left_out))

    def peak(self, without: Iterable[str] = ()) -> tuple[int, int]:
        """Most bytes at one moment, and the event after which they are there."""
        live = self.live(without)
        most = max(live, default=0)
        return most, live.index(most) if live else 0

    def place_of(self, event: int) -> Place:
        """Where the step is at an event."""
        return self.places[max(0, self._place_index(event))][1]

    def _place_index(self, event: int) -> int:
        return bisect_right(self.places, event, key=lambda entry: entry[0]) - 1

    def categories_at(self, event: int) -> dict[str, int]:
        """Bytes after an event by category."""
        found = dict.fromkeys(CATEGORIES, 0)
        for block in self.blocks:
            if block.born <= event and (block.died is None or block.died > event):
                found[self.category(block)] += block.size
        return found

    def by_category(self) -> dict[str, list[int]]:
        """Bytes after each event by category."""
        blocks: dict[str, list[Block]] = {name: [] for name in CATEGORIES}
        for block in self.blocks:
            blocks[self.category(block)].append(block)
        return {name: _totals(self.events, some) for name, some in blocks.items()}

    def category(self, block: Block) -> str:
        """What a block is for: known, or by where it is born and how long it lives."""
        if block.category is not None:
            return block.category
        phase, unit = block.place
        if phase == "backward" or not self._outlives_phase(block):
            return TEMPORARIES
        if phase == "forward":
            return LOSS if unit is not None and unit.split(".")[0] == LOSS else ACTIVATIONS
        return {"recompute": RECOMPUTED, "optimizer": STATE, "input": INPUTS}.get(phase, TEMPORARIES)

    def _outlives_phase(self, block: Block) -> bool:
        """Whether a block is there after the phase it is born in; it may move between units."""
        if block.died is None:
            return True
        first, last = self._place_index(block.born), self._place_index(block.died)
        return any(place.phase != block.place.phase for _, place in self.places[first + 1 : last + 1])


def _totals(events: int, blocks: Iterable[Block]) -> list[int]:
    changes = [0] * events
    for block in blocks:
        changes[block.born] += block.size
        if block.died is not None:
            changes[block.died] -= block.size
    return list(accumulate(changes))
