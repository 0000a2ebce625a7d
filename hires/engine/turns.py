"""Several trainings in one process, step by step in turns, none of which disturbs the others."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from hires.engine.step import Updater
from hires.interfaces import Sample
from hires.ops.random_state import WholeRandomState


class Turns:
    """A training that takes turns with others; made right after its learner, whose random numbers it keeps.

    `wait` returns when the device has done all that it was given.
    """

    def __init__(self, update: Updater, wait: Callable[[], None] = lambda: None):
        self.update, self.wait = update, wait
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self._random = WholeRandomState()

    def step(self, samples: list[Sample]) -> None:
        """One optimizer step; notes its loss and its seconds."""
        with self._turn():
            self.wait()
            begin = time.perf_counter()
            losses = self.update(samples)
            self.wait()
            self.seconds.append(time.perf_counter() - begin)
        self.losses.append(total(losses))

    def leave_gradients(self, samples: list[Sample]) -> None:
        """All of an optimizer step but the update: the parameters keep their gradients."""
        with self._turn():
            self.update.step(samples, optimizer=NoUpdate(), clip=lambda: None)  # type: ignore[call-arg]

    def median(self) -> float | None:
        """Seconds of a step, median; the first one does not count."""
        return statistics.median(self.seconds[1:]) if len(self.seconds) > 1 else None

    def found(self, reference: float | None) -> dict[str, Any]:
        """Its steps by the keys of compare.json; `reference` are the seconds of the steps it is compared with."""
        seconds = self.median()
        ratio = seconds / reference if seconds and reference else None
        return {"seconds_per_step": seconds, "ratio": ratio, "losses": self.losses}

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """With the random numbers that would come if no other training were in the process."""
        others = WholeRandomState()
        self._random.set()
        try:
            yield
        finally:
            self._random = WholeRandomState()
            others.set()


class NoUpdate:
    """Stands in for an optimizer and changes nothing."""

    def step(self) -> None:
        pass

    def zero_grad(self, set_to_none: bool = True) -> None:
        pass


def total(losses: Mapping[str, Tensor]) -> float:
    """The sum of the losses of a step."""
    return sum(float(loss) for loss in losses.values())
