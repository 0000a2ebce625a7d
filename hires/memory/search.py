"""The largest step, or the fastest, within a budget: over micro-batches, image sizes and policies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from hires.memory.mixtures import SLACK, fit
from hires.memory.optimal import cheapest
from hires.memory.policies import Policies
from hires.memory.predictions import Predictions, Shape
from hires.memory.profile import MemoryProfile
from hires.memory.units import Unit

THRIFTY = ("full", "full@stage", "full@2", "offload")
"""Policies by which the least that a step needs is estimated first: the first that is among the choices."""
FIRST_PIXELS = 256 * 256  # of the step that is simulated first, at least
MOST_PIXELS = 1536 * 1024
"""Of the step that all policies are simulated for, where smaller ones are among the shapes."""
GUESSES = 6  # shapes that a search tries because estimates say so
NEAR = 1.3  # times as many pixels, or fewer: lines from there are good enough
CHEAPER = 5e-3  # share of a step's compute that other policies have to save to be simulated


@dataclass(frozen=True)
class Found:
    """A step that was simulated."""

    shape: Shape
    policies: Policies
    allocated: int
    reserved: int
    cost: float  # share of the step's compute that is done again
    time: float  # compute of a micro-batch and the optimizer's step, recomputation included


class Search:
    """Looks for steps that reserve at most some bytes; `tried` are all that were simulated.

    `choices` are the policies to choose from for each unit, by name, or the only ones that there are to be.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        choices: Mapping[str, Policies],
        simulate: Callable[[Shape, Policies], MemoryProfile],
        device: str,
    ):
        self.tried: list[Found] = []
        self._learnt: list[Shape] = []  # with all policies
        self._profiles: dict[tuple[Shape, str], MemoryProfile] = {}
        self._correction = 1.0
        self._simulate_one = simulate
        self._predictions = Predictions(units, choices, self._simulate, device)

    def largest(self, shapes: Sequence[Shape], room: int) -> Found | None:
        """The last of the shapes, which grow, that fits, with its cheapest policies; None: not even the first."""
        self._learn_about(shapes, room)
        fits, fails, guesses = -1, len(shapes), iter(range(GUESSES))
        while fails - fits > 1:
            index = min(max(self._last_that_should_fit(shapes, room), fits + 1), fails - 1)
            if next(guesses, None) is None:  # estimates are of no help: from here on, each leaves half of them
                index = (fits + fails) // 2
            if self.smallest(shapes[index]).reserved <= room:
                fits = index
            else:
                fails = index
        return self.cheapest(shapes[fits], room) if fits >= 0 else None

    def fastest(self, shapes: Sequence[Shape], batch_size: int, room: int) -> Found | None:
        """The shape that trains on most pixels in a time, by estimates, with its policies; None: none fits."""
        self._learn_about(shapes, room)
        speeds = {}
        for shape in shapes:
            time = self._predictions.step_time(shape, batch_size, room)
            if time is not None:
                speeds[shape] = batch_size * shape.height * shape.width / time
        # of those that are as fast, the largest: what a step takes at least is not known from one size
        order = sorted(speeds, key=lambda shape: (round(log(speeds[shape]), 3), shape.pixels), reverse=True)
        for shape in order or shapes[:1]:
            found = self.cheapest(shape, room)
            if found.reserved <= room:
                return found
        return None

    def keeping_all(self, shape: Shape) -> Found | None:
        """A shape with everything kept for the backward; None where that is not among the choices."""
        policies = self._predictions.choices.get("none")
        if policies is None:
            return None
        return _found(shape, policies, self._simulate(shape, policies))

    def cheapest(self, shape: Shape, room: int) -> Found:
        """The cheapest policies of a shape that fit, or those that need least."""
        predictions, smallest = self._predictions, self.smallest(shape)
        if smallest.reserved > room or len(predictions.choices) == 1:
            return smallest
        mixtures = predictions.mixtures(shape)
        best = cheapest(mixtures.options, room - predictions.overhead(shape), slack=SLACK)
        if best and smallest.cost - best.cost < CHEAPER:
            return smallest
        policies, profile = fit(
            mixtures,
            lambda some: self._simulate(shape, some),
            room,
            overhead=predictions.overhead(shape),
            known={},
        )
        found = _found(shape, policies, profile)
        return found if found.reserved <= room else smallest

    def smallest(self, shape: Shape) -> Found:
        """The policies of a shape that need least; how far the estimate was off corrects those that follow."""
        predictions = self._predictions
        policies = next(iter(predictions.choices.values()))
        if len(predictions.choices) > 1:
            mixtures = predictions.mixtures(shape)
            policies = mixtures.policies(mixtures.smallest())
        done = next((each for each in self.tried if (each.shape, each.policies) == (shape, policies)), None)
        if done is None:
            estimate = predictions.least(shape)
            done = _found(shape, policies, self._simulate(shape, policies))
            standing = predictions.standing(shape)
            self._correction = max(0.0, done.reserved - standing) / max(1, estimate - standing)
        return done

    def thriftiest(self, shape: Shape) -> Policies:
        """The policies of a shape that need least; before anything was compared, the choice that should."""
        return self.smallest(shape).policies if self._learnt else self._predictions.choices[self._thrifty()]

    def _thrifty(self) -> str:
        """Of the choices, the one that should need least; of unknown ones, the last that keeps less than all."""
        choices = list(self._predictions.choices)
        others = [name for name in reversed(choices) if name != "none"]
        return next((name for name in THRIFTY if name in choices), (others or choices)[0])

    def least(self, shape: Shape) -> float:
        """Bytes that a step of the shape reserves at least, by an estimate."""
        standing = self._predictions.standing(shape)
        return standing + (self._predictions.least(shape) - standing) * self._correction

    def _learn_about(self, shapes: Sequence[Shape], room: int) -> None:
        """Simulates one shape with little, and the last that should fit by that with all policies."""
        predictions = self._predictions
        thrifty = self._thrifty()
        first = next((shape for shape in shapes if shape.pixels >= FIRST_PIXELS), shapes[-1])
        predictions.learn(first, [thrifty])
        likely = shapes[max(0, self._last_that_should_fit(shapes, room))]
        if likely.pixels > MOST_PIXELS:  # the time of a simulation grows with the chunks of the loss
            likely = max((shape for shape in shapes if shape.pixels <= MOST_PIXELS), default=first, key=_pixels)
        if not any(1 / NEAR < likely.pixels / each.pixels < NEAR for each in self._learnt):
            self._learnt.append(likely)
            predictions.learn(likely)
            predictions.learn(first)  # not all of it grows with images: weights in half precision do not

    def _last_that_should_fit(self, shapes: Sequence[Shape], room: int) -> int:
        """The index, by what is known so far; -1: none."""
        low, high = -1, len(shapes) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.least(shapes[middle]) <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def _simulate(self, shape: Shape, policies: Policies) -> MemoryProfile:
        key = shape, repr(policies)
        if key not in self._profiles:
            profile = self._profiles[key] = self._simulate_one(shape, policies)
            self.tried.append(_found(shape, policies, profile))
        return self._profiles[key]


def _pixels(shape: Shape) -> int:
    return shape.pixels


def _found(shape: Shape, policies: Policies, profile: MemoryProfile) -> Found:
    cost = sum(profile.recomputed().values())
    time = profile.compute() * (1 + cost)
    return Found(shape, policies, profile.allocated, profile.reserved, cost, time)
