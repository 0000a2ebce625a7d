"""Trainings that are made up: what they occupy follows from a few random numbers, exactly, and takes no torch."""

import itertools
import random
from collections.abc import Callable

from hires.memory.allocator_settings import MIB
from hires.memory.policies import Policies, policies_of
from hires.memory.predictions import Shape
from hires.memory.profile import MemoryProfile
from hires.memory.timeline import PARAMETERS, TEMPORARIES, Place, Timeline
from hires.memory.units import Unit

SHARES = {"none": 1.0, "selective": 0.5, "full": 0.1}
"""Of what a unit could keep for the backward, what it does under a policy."""
CHOICES = tuple(SHARES)


def exact(shape: Shape) -> float:
    return 1.0


class MadeUp:
    """Units one behind the other. `off` is by what factor a shape's needs are not those of all pixels alike."""

    def __init__(self, seed: int, off: Callable[[Shape], float] = exact, units: int = 4):
        draw = random.Random(seed)
        self.units = [Unit(f"stage1.{index}", "stage1", ()) for index in range(units)]
        self.standing = draw.randint(1, 200) * MIB
        self.kept = {unit.name: draw.randint(20, 4000) for unit in self.units}  # bytes per pixel
        self.passing = {unit.name: draw.randint(0, 3000) for unit in self.units}
        self.work = {unit.name: draw.uniform(0.1, 1) for unit in self.units}  # time per pixel
        self.least_time = 0.0  # of a step, however small
        self.off, self.calls = off, 0

    def profile(self, shape: Shape, policies: Policies) -> MemoryProfile:
        self.calls += 1
        if not isinstance(policies, str):
            policies = {name: policy.kind for name, policy in policies_of(policies, self.units).items()}
        timeline, pixels = Timeline(), shape.pixels * self.off(shape)
        timeline.add(self.standing, Place("input"), PARAMETERS)
        timeline.start = timeline.events
        kept = {}
        for name in self.kept:
            place = Place("forward", name)
            timeline.work[place] = self.work[name] * shape.pixels
            timeline.passing(round(self.passing[name] * pixels), place, TEMPORARIES)
            kept[name] = timeline.add(round(self._share(policies, name) * self.kept[name] * pixels), place)
        for name in reversed(self.kept):
            share = 1 - self._share(policies, name)
            if share:
                again = timeline.add(round(share * self.kept[name] * pixels), Place("recompute", name))
                timeline.work[Place("recompute", name)] = share * self.work[name] * shape.pixels
            place = Place("backward", name)
            timeline.passing(round(self.passing[name] * pixels), place, TEMPORARIES)
            timeline.work[place] = 2 * self.work[name] * shape.pixels
            if share:
                timeline.end(again)
            timeline.end(kept[name])
        timeline.work[Place("update")] = self.least_time
        timeline.work[Place("optimizer")] = self.standing / MIB
        most = timeline.peak()[0]
        return MemoryProfile("cpu", timeline, most, most, 10 * MIB)

    def _share(self, policies: Policies, name: str) -> float:
        policy = policies if isinstance(policies, str) else policies[name]
        return SHARES[policy]

    def mixes(self, choices: tuple[str, ...] = CHOICES) -> list[dict[str, str]]:
        names = list(self.kept)
        return [dict(zip(names, mix, strict=True)) for mix in itertools.product(choices, repeat=len(names))]

    def least(self, shape: Shape) -> int:
        """Bytes that a step reserves at least, by trying all mixes."""
        return min(self.profile(shape, mix).reserved for mix in self.mixes())
