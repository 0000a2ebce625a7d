"""What a training notices of itself for its report: where the time goes, and the images of its evaluations."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from hires.engine.progress import Stopwatch
from hires.engine.time_split import TimeSplit
from hires.interfaces import ImageSource
from hires.ops.looks import Evidence, HarmlessNotes, NoNotes, Notes


class Taken(NamedTuple):
    """The notes of an evaluation."""

    step: int
    metrics: dict[str, float]
    evidence: Evidence


@dataclass
class Observed:
    """Filled while a process trains; `best` is None where the best evaluation was not made by it."""

    split: TimeSplit = field(default_factory=TimeSplit)
    source: ImageSource | None = None  # the validation images
    best: Taken | None = None
    _latest: tuple[int, dict[str, float], HarmlessNotes] | None = None

    @contextmanager
    def fitting(self, stopwatch: Stopwatch) -> Iterator[None]:
        """While the loop runs."""
        try:
            with self.split.of("all"):
                yield
        finally:
            self.split.whole["waiting"] = stopwatch.waited

    def evaluating(
        self,
        source: ImageSource,
        evaluation: Callable[..., dict[str, float]],
        notes: HarmlessNotes,
        metric: str,
        keep: bool = True,
    ) -> Callable[[Any, int], dict[str, float]]:
        """The evaluation of a task at a step, whose notes are kept when it is the best, where they are wanted."""
        self.source = source

        def evaluate(task: Any, step: int) -> dict[str, float]:
            with self.split.of("evaluation"):
                metrics = evaluation(task)
                if keep:
                    self._latest = step, metrics, notes
                    self._keep(metrics[metric], metric)
            return metrics

        return evaluate

    @property
    def last(self) -> Taken | None:
        """Of the last evaluation; put together now, from notes that the next one would begin anew."""
        if self._latest is None:
            return None
        step, metrics, notes = self._latest
        if self.best and self.best.step == step:
            return self.best
        evidence = notes.evidence()
        return None if evidence is None else Taken(step, metrics, evidence)

    def _keep(self, value: float, metric: str) -> None:
        """By the rule by which checkpoints are judged."""
        before = self.best and self.best.metrics[metric]
        if not math.isnan(value) and (before is None or value > before):
            self.best = self.last or self.best


def noted(evaluator: Any) -> HarmlessNotes:
    """Notes beside an evaluator; none where it has no way to take any."""
    notes: Notes = getattr(evaluator, "notes", NoNotes)()
    return HarmlessNotes(notes)


def waits(device: torch.device) -> Callable[[], None] | None:
    """Waits for a device that works on its own; None for others."""
    if device.type != "cuda":
        return None
    return lambda: torch.cuda.synchronize(device)
