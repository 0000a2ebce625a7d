"""What each unit of a step needs, read from its simulation, and what that is at other sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from hires.memory.profile import MemoryProfile


@dataclass(frozen=True)
class Needs:
    """Of a step in which all units have the same policy; bytes by unit.

    `forward` and `backward` are above what the units before keep, what stands there all the time included.
    """

    kept: Mapping[str, float]  # from a unit's forward until its backward
    forward: Mapping[str, float]  # most while it runs
    backward: Mapping[str, float]  # most while its backward runs, recomputation included
    rest: float  # most elsewhere in the step
    cost: Mapping[str, float]  # share of the step's compute that is done again
    standing: float  # what is there before the step: does not grow with images
    work: float  # compute of a micro-batch without what is done again
    update: float  # compute of the optimizer's step

    def at(self, ratio: float) -> Self:
        """With that many times the pixels: all that does not stand there grows with them."""

        def needed(value: float) -> float:
            return max(0.0, self.standing + (value - self.standing) * ratio)

        return type(self)(
            {unit: value * ratio for unit, value in self.kept.items()},
            {unit: needed(value) for unit, value in self.forward.items()},
            {unit: needed(value) for unit, value in self.backward.items()},
            needed(self.rest),
            self.cost,
            self.standing,
            self.work * ratio,
            self.update,
        )

    def joined(self, all_kept: "Needs", segments: Sequence[Sequence[str]]) -> Self:
        """Of segments that run again as one, where here each unit does alone; they keep what the first is given.

        All of a segment runs again before the backward of its last unit, which needs what it does alone and what
        those before it keep if nothing is forgotten. From there on the others need what they do then.
        """
        kept, backward = dict.fromkeys(self.kept, 0.0), dict(self.backward)
        for segment in segments:
            first, last = segment[0], segment[-1]
            kept[first] = self.kept[first]
            again = -kept[first]  # which is there, and among what the first keeps if nothing is forgotten
            for unit in segment[:-1]:
                backward[unit] = all_kept.backward[unit] + max(0.0, again if unit != first else 0.0)
                again += all_kept.kept[unit]
            if first != last:
                backward[last] += max(0.0, again) + self.kept[last]
        return replace(self, kept=kept, backward=backward)

    def moving(self, all_kept: "Needs", price: float) -> Self:
        """With the cost of moving out and back, at a price a byte, what is kept less than when all is."""
        whole = self.work + self.update
        moved = {unit: max(0.0, kept - self.kept[unit]) for unit, kept in all_kept.kept.items()}
        return replace(self, cost={unit: 2 * price * count / whole for unit, count in moved.items()})

    def towards(self, other: "Needs", share: float) -> Self:
        """On the lines through this and the same of another size, where 1 is the other; no number is negative."""

        def between(mine: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
            return {unit: _along(value, others[unit], share) for unit, value in mine.items()}

        return type(self)(
            between(self.kept, other.kept),
            between(self.forward, other.forward),
            between(self.backward, other.backward),
            _along(self.rest, other.rest, share),
            self.cost,
            self.standing,
            _along(self.work, other.work, share),
            self.update,
        )


def _along(here: float, there: float, share: float) -> float:
    return max(0.0, here + (there - here) * share)


def needs_of(profile: MemoryProfile, units: Sequence[str]) -> Needs:
    """What the units of a simulated step need."""
    found, timeline = profile.kept(), profile.timeline
    kept = {unit: found.get(unit, 0) for unit in units}
    before = _kept_before(kept)
    forward, backward, rest = dict.fromkeys(units, 0), dict.fromkeys(units, 0), 0
    ways = {"forward": forward, "backward": backward, "recompute": backward}
    live, unit = timeline.live(), None
    ends = [start for start, _ in timeline.places[1:]] + [timeline.events]
    for (start, place), end in zip(timeline.places, ends, strict=True):
        most = max(live[start:end], default=0)
        unit = place.unit if place.unit in before else unit  # what runs between units counts to the last one
        if unit is None or place.phase not in ways:
            rest = max(rest, most)
        else:
            needs = ways[place.phase]
            needs[unit] = max(needs[unit], most - before[unit])
    again = profile.recomputed()
    cost = {unit: again.get(unit, 0.0) for unit in units}
    standing = live[timeline.start - 1] if timeline.start else 0
    update = profile.compute("optimizer")
    return Needs(kept, forward, backward, rest, cost, standing, profile.compute() - update, update)


def _kept_before(kept: Mapping[str, int]) -> dict[str, int]:
    before, total = {}, 0
    for unit, size in kept.items():
        before[unit], total = total, total + size
    return before
