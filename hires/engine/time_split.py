"""Where the time of a training goes: waiting for data, the parts of a step, evaluation, saving."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor

from hires.interfaces import Sample

T = TypeVar("T")
Update = Callable[[list[Sample]], dict[str, Tensor]]

_FIRST, _EVERY = (3, 4, 5), 100  # steps of a process whose parts are timed


class TimeSplit:
    """Adds up wall time by what it goes for.

    Waiting, evaluation and saving are timed each time. The parts of a step are timed in a few steps only, since
    there `wait` is called between them, until the device has done all that it was given; how much of all steps
    they make is taken from these. Such a step is told to `leave_out`, in seconds, where there is a `wait`.
    """

    def __init__(self, wait: Callable[[], None] | None = None):
        self.wait = wait
        self.leave_out: Callable[[float], None] = lambda seconds: None
        self.whole: dict[str, float] = {}
        self.sampled = {"forward": 0.0, "backward": 0.0, "exchange": 0.0, "optimizer": 0.0}
        self.steps = self.steps_sampled = 0
        self._sampling = False
        self._backward = self._last = 0.0  # seconds within, and the end of the last one
        self._clipped: float | None = None

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.whole[name] = self.whole.get(name, 0.0) + time.perf_counter() - begin

    def saves(self, checkpointer: Any) -> Any:
        """The same checkpointer; the time of its `save` is that of saving."""
        return _Timed(self, checkpointer)

    def watching(self, update: Update) -> Update:
        """The same update, some of whose steps are timed part by part."""

        def watched(samples: list[Sample]) -> dict[str, Tensor]:
            self.steps += 1
            with self.of("steps"):
                if self.steps not in _FIRST and self.steps % _EVERY:
                    return update(samples)
                return self._sample(update, samples)

        return watched

    def backward(self, function: Callable[..., T]) -> Callable[..., T]:
        """The same function, which runs one backward."""

        def within(*given: Any, **named: Any) -> T:
            if not self._sampling:
                return function(*given, **named)
            begin = self._now()
            result = function(*given, **named)
            self._last = self._now()
            self._backward += self._last - begin
            return result

        return within

    def clip(self, function: Callable[[], T]) -> Callable[[], T]:
        """The same function, with which the update begins."""

        def within() -> T:
            if self._sampling:
                self._clipped = self._now()
            return function()

        return within

    def _sample(self, update: Update, samples: list[Sample]) -> dict[str, Tensor]:
        begin = self._now()
        self._sampling, self._backward, self._last, self._clipped = True, 0.0, begin, None
        try:
            losses = update(samples)
        finally:
            self._sampling = False
        end = self._now()
        self._count(begin, end)
        if self.wait is not None:
            self.leave_out(end - begin)
        return losses

    def _count(self, begin: float, end: float) -> None:
        clipped = self._last if self._clipped is None else self._clipped
        if not begin < self._last <= clipped:
            return  # done again, as when memory ran out
        self.steps_sampled += 1
        self.sampled["forward"] += self._last - begin - self._backward
        self.sampled["backward"] += self._backward
        self.sampled["exchange"] += clipped - self._last
        self.sampled["optimizer"] += end - clipped

    def _now(self) -> float:
        if self.wait is not None:
            self.wait()
        return time.perf_counter()

    def found(self) -> dict[str, Any]:
        """Seconds by what they went for; of the parts of a step, their shares of all steps."""
        whole = dict(self.whole)
        steps, timed = whole.pop("steps", 0.0), sum(self.sampled.values())
        parts = (
            {name: steps * value / timed for name, value in self.sampled.items()} if timed else {"steps": steps}
        )
        seconds = {**parts, **whole}
        return {"seconds": seconds, "steps": self.steps, "steps_sampled": self.steps_sampled}


class _Timed:
    """Stands for a checkpointer whose `save` is timed."""

    def __init__(self, split: TimeSplit, checkpointer: Any):
        self._split, self._checkpointer = split, checkpointer

    def save(self, *given: Any, **named: Any) -> Any:
        with self._split.of("saving"):
            return self._checkpointer.save(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checkpointer, name)


class NoSplit(TimeSplit):
    """Times nothing: functions are given back as they are."""

    def backward(self, function: Callable[..., T]) -> Callable[..., T]:
        return function

    def clip(self, function: Callable[[], T]) -> Callable[[], T]:
        return function
