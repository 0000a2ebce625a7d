"""What a training step needs at any micro-batch and image size, from a few that were simulated."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

from hires.memory.costs import MOVING
from hires.memory.mixtures import SLACK, Mixtures, segments
from hires.memory.needs import Needs, needs_of
from hires.memory.optimal import cheapest
from hires.memory.policies import Policies, parse_policy
from hires.memory.profile import MemoryProfile
from hires.memory.units import Unit


class Shape(NamedTuple):
    """What a network sees at once."""

    micro_batch: int
    height: int
    width: int

    @property
    def pixels(self) -> int:
        return self.micro_batch * self.height * self.width


Simulate = Callable[[Shape, Policies], MemoryProfile]


@dataclass(frozen=True)
class Known:
    """What was simulated of a policy for all units."""

    needs: Needs
    context: int  # bytes beside the allocator
    spare: int  # bytes that the allocator holds beyond the tensors at their peak


class Predictions:
    """Steps of other shapes, on lines through those that were simulated, unit by unit.

    `choices` are the policies to choose from by the name they go by; the only one may be any that was given.
    """

    def __init__(self, units: Sequence[Unit], choices: Mapping[str, Policies], simulate: Simulate, device: str):
        self.units, self.choices, self.simulate, self.device = units, choices, simulate, device
        self.known: dict[str, dict[Shape, Known]] = {name: {} for name in choices}

    def learn(self, shape: Shape, names: Iterable[str] | None = None) -> None:
        """Simulates a shape with these of the choices, or with all; what follows from others is not simulated."""
        for name in self.choices if names is None else names:
            if shape not in self.known[name] and not self._follows(name):
                profile = self.simulate(shape, self.choices[name])
                needs = needs_of(profile, [unit.name for unit in self.units])
                spare = profile.cached - profile.timeline.peak()[0]
                self.known[name][shape] = Known(needs, profile.context, spare)

    def _follows(self, name: str) -> bool:
        """Whether a choice joins a few units to segments, of which `none` and `full` tell what they need.

        Whole stages are simulated: heads and decoders are, where units are least alike.
        """
        joins = name == self.choices[name] and (parse_policy(name).together or 1) > 1
        return joins and {"none", "full"} <= set(self.choices)

    def mixtures(self, shape: Shape) -> Mixtures:
        """What mixes of the choices need at a shape."""
        needs = {name: self._needs(points, shape) for name, points in self.known.items() if points}
        if {"none", "full"} <= set(needs):
            for name in filter(self._follows, self.choices):
                needs[name] = needs["full"].joined(needs["none"], segments(name, self.units))
        if "offload" in needs and "none" in needs:
            needs["offload"] = needs["offload"].moving(needs["none"], MOVING[self.device])
        return Mixtures(self.units, needs)

    def overhead(self, shape: Shape) -> int:
        """Bytes that are reserved beyond the tensors, at least: as at the nearest shape.

        They do not grow with the pixels: what an allocator rounds up does not, and holes are filled by the steps
        that fill a budget.
        """
        there = self._nearby(shape)
        return there[0].context + min(known.spare for known in there)

    def least(self, shape: Shape) -> int:
        """Bytes that a step of the shape reserves at least."""
        return self.mixtures(shape).least() + self.overhead(shape)

    def standing(self, shape: Shape) -> float:
        """Bytes that a step reserves whatever the images: what is there before it."""
        known = self._nearby(shape)[0]
        return known.needs.standing + known.context

    def _nearby(self, shape: Shape) -> list[Known]:
        """What is known of the nearest shape, by choice."""
        near = _nearest([at for points in self.known.values() for at in points], shape)[0]
        return [points[near] for points in self.known.values() if near in points]

    def step_time(self, shape: Shape, batch_size: int, room: int) -> float | None:
        """Compute of an optimizer step with the cheapest policies; None: no room for any."""
        mixtures = self.mixtures(shape)
        plan = cheapest(mixtures.options, room - self.overhead(shape), slack=SLACK)
        if plan is None or mixtures.rest + self.overhead(shape) > room:
            return None
        needs = self._needs(max(self.known.values(), key=len), shape)  # work is that of any policy
        steps = -(-batch_size // shape.micro_batch)
        return steps * (needs.work + plan.cost * (needs.work + needs.update)) + needs.update

    def _needs(self, points: Mapping[Shape, Known], shape: Shape) -> Needs:
        first, *others = _nearest(points, shape)
        needs = points[first].needs
        other = next((each for each in others if each.pixels != first.pixels), None)
        if first.pixels == shape.pixels:
            return needs
        if other is None:
            return needs.at(shape.pixels / first.pixels)
        share = (shape.pixels - first.pixels) / (other.pixels - first.pixels)
        return needs.towards(points[other].needs, share)


def _nearest(points: Iterable[Shape], shape: Shape) -> list[Shape]:
    return sorted(points, key=lambda point: abs(log(point.pixels / shape.pixels)))
