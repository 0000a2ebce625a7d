"""Where a training stands, and what its log lines average: both are saved in a checkpoint."""

import math
import statistics
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor


class RunningMean:
    """Mean of named scalars since the last reading; they stay on their device until then."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.count = 0

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Takes in the scalars of one step; a step without any does not count."""
        self.count += bool(values)
        for name, value in values.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value

    def take(self) -> dict[str, float]:
        """The means by name; starts again."""
        means = {name: float(total) / self.count for name, total in self.sums.items()}
        self.sums, self.count = {}, 0
        return means

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums, self.count = dict(state["sums"]), state["count"]


class Progress:
    """Steps done, the last and the best evaluation, and the losses since the last log line."""

    def __init__(self) -> None:
        self.step = 0
        self.best: float | None = None
        self.best_step = 0
        self.stale = 0  # evaluations since the best
        self.evaluated_step = 0  # of the last evaluation
        self.metrics: dict[str, float] = {}  # of the last evaluation
        self.losses = RunningMean()
        self.skipped = 0  # updates of the whole run
        self.recent_skips, self.last_skip = 0, 0  # how many not long ago, and the step of the last one
        self.first_skip = ""  # of the recent ones, in words

    def judge(self, value: float) -> bool:
        """Takes in the value of an evaluation; true when it is the best so far."""
        better = not math.isnan(value) and (self.best is None or value > self.best)
        if better:
            self.best, self.best_step, self.stale = value, self.step, 0
        else:
            self.stale += 1
        return better

    def state_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "losses": self.losses.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.losses.load_state_dict(state["losses"])
        self.__dict__.update({name: value for name, value in state.items() if name != "losses"})


class Stopwatch:
    """Seconds per step, waiting for data and evaluation excluded; the first steps do not count.

    Read only where the host has just waited for the device, so that it is right for asynchronous devices too.
    """

    WARMUP_STEPS = 5
    INTERVALS = 1000  # of which the median is taken, the last ones

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=self.INTERVALS)
        self.steps = 0
        self.waited = 0.0  # seconds, for items
        self.start()

    def start(self) -> None:
        """Begins an interval, forgetting what was not read."""
        self._begin, self._excluded, self._interval_steps = time.perf_counter(), 0.0, 0

    def waiting(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items; the time in which they are fetched is excluded."""
        iterator = iter(items)
        while True:
            begin = time.perf_counter()
            try:
                item = next(iterator)
            except StopIteration:
                return
            seconds = time.perf_counter() - begin
            self._excluded, self.waited = self._excluded + seconds, self.waited + seconds
            yield item

    def leave_out(self, seconds: float) -> None:
        """The step at work does not count, of which so many seconds have gone."""
        self._excluded += seconds
        self._interval_steps -= 1

    def stepped(self) -> None:
        self.steps += 1
        self._interval_steps += 1
        if self.steps == self.WARMUP_STEPS:
            self.start()

    def read(self) -> float | None:
        """Seconds per step since `start` or the last reading; None without a step."""
        if not self._interval_steps:
            return None
        seconds = (time.perf_counter() - self._begin - self._excluded) / self._interval_steps
        if self.steps > self.WARMUP_STEPS:
            self.rates.append(seconds)
        self.start()
        return seconds

    def median(self) -> float | None:
        """Median over the last intervals read; None when the training was too short."""
        return statistics.median(self.rates) if self.rates else None
