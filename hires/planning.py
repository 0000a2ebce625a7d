"""The plan of a training: searched for by simulation, probed where the device is, with what to fall back to."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from hires.engine.launch import processes_here
from hires.examples import Examples
from hires.goals import LARGEST_THEN_FASTEST, START, at_size, goal_of, steps_of
from hires.interfaces import ConfigError, MemoryPlan, Peaks, TrainingError
from hires.measured_memory import Measured
from hires.memory.budget import budget_bytes
from hires.memory.policies import AUTO, Policies, as_override, policies_of, shortened
from hires.memory.predictions import Shape
from hires.memory.profile import MemoryProfile
from hires.memory.reasons import in_words, why
from hires.memory.rungs import rungs_of
from hires.memory.search import Found, Search
from hires.memory.simulate_values import SimulationError
from hires.recipe import Recipe, Size
from hires.simulated_training import SimulatedTraining, device_of
from hires.visualize.text import size

log = logging.getLogger(__name__)

UNMEASURED = {"32-true": 0.03, "bf16-mixed": 0.06, "16-mixed": 0.06}
"""Share of a budget that stays free before a probe has measured how far predictions are off."""
PROBES = 3
LEAST_MARGIN = 0.01  # share of a budget that always stays free
BACK = 0.08  # share of a budget by which less is predicted after a probe that did not fit, at least
CHEAPER = 0.01  # share of a step's compute that another plan has to save, for it to be tried
WORTH = 0.03  # share of a budget that has to be free for cheaper policies of the same step to be tried


class Trainings:
    """Simulated trainings of a recipe at any size, one at a time."""

    def __init__(self, recipe: Recipe, examples: Examples, device: str):
        self.recipe, self.examples, self.device = recipe, examples, device
        self._training: SimulatedTraining | None = None

    def at(self, size: Size) -> SimulatedTraining:
        if self._training is None:
            self._training = SimulatedTraining(self.recipe_at(size), self.examples, self.device)
        elif size != self._training.recipe.image_size:
            self._training = self._training.at(self.recipe_at(size))
        return self._training

    def recipe_at(self, size: Size) -> Recipe:
        return replace(self.recipe, top=replace(self.recipe.top, image_size=size))

    def simulate(self, shape: Shape, policies: Policies) -> MemoryProfile:
        return self.at((shape.height, shape.width)).profile(policies, shape.micro_batch)


@dataclass(frozen=True)
class Probe:
    """A plan that was tried in a process of its own."""

    found: Found
    measured: Measured
    fits: bool


def budget_of(recipe: Recipe) -> int:
    """Bytes that a process may reserve. What is free on a CPU is shared by the processes of the machine."""
    said, device = recipe.memory.budget or AUTO, device_of(recipe)
    shared = device == "cpu" and (said == AUTO or isinstance(said, float))
    return budget_bytes(said, device) // (processes_here(recipe.trainer) if shared else 1)


class Planner:
    """Finds the plan of a recipe on a device within its budget; `try_out` runs a plan there, if it is there.

    `budget` gives the bytes of a process; None: those of this one. Of several processes the plan is that of each,
    for its share of the batch.
    """

    def __init__(
        self,
        recipe: Recipe,
        examples: Examples,
        device: str,
        try_out: Callable[[MemoryPlan], Measured] | None,
        budget: Callable[[], int] | None = None,
    ):
        self.recipe, self.device, self._try_out = recipe, device, try_out
        self.budget = budget() if budget else budget_of(recipe)
        self.goal = goal_of(recipe)
        self._trainings = Trainings(recipe, examples, device)
        self._first = self._begin()
        self.least = min(recipe.memory.min_micro_batch or self._first.least_micro_batch, recipe.share)
        self.search = Search(self._first.units, self._choices(), self._trainings.simulate, device)
        largest = examples.limits.max_shape
        self.shapes = steps_of(recipe, self.goal, self.least, self._first.stride, largest)
        self.probes: list[Probe] = []
        self.seconds = 0.0  # of the search, without the probes

    def _begin(self) -> SimulatedTraining:
        """A training of the size that is given, or of one to begin with, which nobody asked for."""
        if self.recipe.top.image_size != AUTO:
            return self._trainings.at(self.recipe.image_size)
        try:
            return self._trainings.at(START)
        except ConfigError as error:
            raise SimulationError(f"a search begins at {START[0]} x {START[1]}, but {error}") from error

    def plan(self) -> MemoryPlan:
        """The plan. Raises ConfigError where not even the smallest step fits."""
        room = round(self.budget * (1 - UNMEASURED[self.recipe.trainer.precision]))
        found = self._look(room)
        best = None
        while self._try_out is not None and len(self.probes) < PROBES:
            probe = self._probe(found)
            if probe.fits:
                best = probe
            elif best is not None:
                break
            after = self._next_room(probe, room)
            failed = [each.found.reserved for each in self.probes if not each.fits]
            after = min([after, *(reserved - 1 for reserved in failed)])
            if len(self.probes) == PROBES or (best and after <= room):
                break
            room, before = after, found
            found = self._look(room)
            if best and found.shape == before.shape and (failed or not self._is_worth_it(found, best)):
                break
        if self._try_out is not None and best is None:
            raise self._too_small("no plan that was predicted to fit did so when it was tried")
        found = best.found if best else found
        return self._completed(self._made(found, best.measured if best else None, room), found)

    def _completed(self, plan: MemoryPlan, found: Found) -> MemoryPlan:
        """With what to fall back to, how evaluations are carried out, and why."""
        views, evaluation = self._evaluation(plan)
        measured = plan.measured.reserved if plan.measured else None
        share = max(self.recipe.share, found.shape.micro_batch)  # which may have grown
        return replace(
            plan,
            evaluation_batch_size=views,
            evaluation=evaluation,
            rungs=rungs_of(plan, share, self._thriftiest(plan), self.least),
            reasons=(
                *why(
                    found,
                    measured,
                    self.search.tried,
                    self.shapes,
                    self.budget,
                    plan.margin or 0,
                    self._grown(found),
                ),
                *self._about(evaluation, plan.image_size),
            ),
        )

    def _evaluation(self, plan: MemoryPlan) -> tuple[int, Peaks | None]:
        """The most views of an evaluation at once, up to what is given, that fit, and what they take, if known."""
        views = self.recipe.evaluation.batch_size
        training = self._trainings.at(plan.image_size)
        while True:
            try:
                profile = training.evaluation(views)
            except SimulationError as error:
                log.info("The memory of evaluations is not predicted: %s", error)
                return views, None
            if profile.reserved <= self.budget or views == 1:
                return views, Peaks(profile.allocated, profile.reserved)
            views //= 2

    def _about(self, evaluation: Peaks | None, image_size: Size) -> list[str]:
        if evaluation is None or evaluation.reserved <= self.budget:
            return []
        recipe = self._trainings.recipe_at(image_size)
        window = " x ".join(map(str, recipe.window))
        return [
            f"An evaluation of one window of {window} is predicted to reserve {size(evaluation.reserved)}, more "
            f"than the budget: set a smaller evaluation.{self.recipe.window_key}."
        ]

    def _choices(self) -> dict[str, Policies]:
        """The policies to choose from; those that were given, where they were."""
        said, choices = self.recipe.memory.activation_checkpointing, self.recipe.memory.choices
        if said != AUTO:
            return {said if isinstance(said, str) else "none": said}
        if "offload" in choices and not self._first.offloads:
            raise ConfigError("memory.choices: offload does nothing on a CPU unless memory.offload_dir is set")
        return {name: name for name in choices}

    def _thriftiest(self, plan: MemoryPlan) -> dict[str, str]:
        """The policies by which a plan's step needs least."""
        return self._named(self.search.thriftiest(Shape(plan.micro_batch_size, *plan.image_size)))

    def _named(self, policies: Policies) -> dict[str, str]:
        return {name: str(policy) for name, policy in policies_of(policies, self._first.units).items()}

    def _too_small(self, why: str) -> ConfigError:
        return ConfigError(
            f"memory.budget: nothing fits into {size(self.budget)}: {why}; raise it, or lower image_size, "
            "memory.min_micro_batch, or the size of the backbone"
        )

    def override(self, plan: MemoryPlan) -> str:
        """What says the same on the command line."""
        height, width = plan.image_size
        micro, recipe = plan.micro_batch_size, self.recipe
        batch = f"batch_size={micro * recipe.processes} " if micro > recipe.share else ""
        return (
            f"{batch}micro_batch_size={micro} 'image_size=[{height},{width}]' "
            f"{as_override(self.short(plan.policies))}"
        )

    def short(self, policies: Policies) -> Policies:
        """The same policies as they are written."""
        return shortened(policies_of(policies, self._first.units), self._first.units)

    def _look(self, room: int) -> Found:
        begin = time.perf_counter()
        if self.goal == LARGEST_THEN_FASTEST:
            found = self._largest_then_fastest(room)
        elif self.goal == "throughput":
            found = self.search.fastest(self.shapes, self.recipe.share, room)
        else:
            found = self.search.largest(self.shapes, room)
        self.seconds += time.perf_counter() - begin
        if found is None:
            least = min(self.search.tried, key=lambda each: each.reserved)
            free = f", and {size(self.budget - room)} have to stay free" if least.reserved <= self.budget else ""
            raise self._too_small(
                f"{in_words(least.shape)} is predicted to reserve {size(least.reserved)} at least{free}"
            )
        return found

    def _largest_then_fastest(self, room: int) -> Found | None:
        """First the most that can be asked for is simulated: the whole batch at the largest size, all kept."""
        last, share = self.shapes[-1], self.recipe.share
        most = self.search.keeping_all(Shape(share, last.height, last.width))
        if most is not None and most.reserved <= room:
            return most
        largest = self.search.largest(self.shapes, room)
        if largest is None:
            return None
        steps = at_size(self.recipe, self.least, (largest.shape.height, largest.shape.width))
        return self.search.fastest(steps, share, room) or largest

    def _grown(self, found: Found) -> Shape:
        """The step beyond which a larger one was looked for; the micro-batch may have grown after that."""
        if self.goal != LARGEST_THEN_FASTEST:
            return found.shape
        return Shape(self.least, found.shape.height, found.shape.width)

    def _probe(self, found: Found) -> Probe:
        assert self._try_out is not None
        log.info("Probing %s, predicted to reserve %s", in_words(found.shape), size(found.reserved))
        measured = self._try_out(self._made(found, None, self.budget))
        done = measured.seconds is not None  # its process may have been ended
        if not done and not measured.out_of_memory:
            raise TrainingError("memory: the plan could not be tried out, for the reason above")
        fits = done and not measured.retries and (measured.reserved or 0) <= self.budget
        self.probes.append(Probe(found, measured, fits))
        took = "out of memory" if measured.out_of_memory else f"measured {size(measured.reserved)}"
        log.info("It %s: %s", "fits" if fits else "does not fit", took)
        return self.probes[-1]

    def _next_room(self, probe: Probe, room: int) -> int:
        """What predictions may reserve, after one was compared with what it really took."""
        if not probe.fits:
            beyond = (probe.measured.reserved or 0) - probe.found.reserved
            return probe.found.reserved - max(round(self.budget * BACK), beyond)
        if probe.measured.reserved is None:  # which not every system tells
            return room
        return self.budget - (probe.measured.reserved - probe.found.reserved) - self._margin(probe.measured)

    def _is_worth_it(self, found: Found, best: Probe) -> bool:
        """Whether the same step is so much cheaper, and so much is free, that another probe is worth its time."""
        free = self.budget - self._margin(best.measured) - (best.measured.reserved or self.budget)
        return found.cost < best.found.cost - CHEAPER and free > WORTH * self.budget

    def _margin(self, measured: Measured) -> int:
        """Bytes of the budget that stay free of what was measured."""
        return max(round(self.budget * LEAST_MARGIN), measured.spread or 0)

    def _made(self, found: Found, measured: Measured | None, room: int) -> MemoryPlan:
        micro = found.shape.micro_batch
        plan = MemoryPlan(
            micro_batch_size=micro,
            accumulation_steps=-(-self.recipe.share // micro),
            image_size=(found.shape.height, found.shape.width),
            precision=self.recipe.trainer.precision,
            policies=self._named(found.policies),
            budget=self.budget,
            margin=self.budget - room,
            predicted=Peaks(found.allocated, found.reserved),
        )
        if measured is None or measured.allocated is None or measured.reserved is None:
            return plan
        peaks = Peaks(measured.allocated, measured.reserved)
        return replace(plan, measured=peaks, margin=self._margin(measured))
