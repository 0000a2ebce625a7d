"""The training loop, the same for every task."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from hires.engine.checkpointer import Checkpointer
from hires.engine.progress import Progress, Stopwatch
from hires.engine.reporter import Reporter
from hires.engine.stopping import Stopping
from hires.interfaces import Interrupted, Sample

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Routine:
    """What happens at which optimizer step."""

    max_steps: int
    log_every: int
    checkpoint_every: int
    evaluate_every: int | None  # None: only at the end
    metric: str  # decides which evaluation is best; larger is better
    patience: int | None  # evaluations without a better one before the end; None: no end
    batch_size: int | None = None  # of all processes, for images a second; None: as many as this one gets
    checkpoint_minutes: float | None = None  # since the last checkpoint; None: only steps count

    def evaluates(self, step: int) -> bool:
        return step == self.max_steps or bool(self.evaluate_every and step % self.evaluate_every == 0)

    def logs(self, step: int) -> bool:
        return step == self.max_steps or step % self.log_every == 0

    def saves(self, step: int) -> bool:
        return self.evaluates(step) or step % self.checkpoint_every == 0

    def is_time_to_save(self, seconds: float) -> bool:
        """Whether so many seconds without a checkpoint are too many."""
        return self.checkpoint_minutes is not None and seconds >= 60 * self.checkpoint_minutes


class Trainer:
    """Runs optimizer steps, logs, evaluates and saves.

    `update` trains on one optimizer batch, counts it in `progress` and returns its losses; `evaluate` returns
    metrics by name, none without a validation split. Resumed, `progress` stands at the checkpoint. `stopping` may
    ask for the end, before which the state is saved.
    """

    def __init__(
        self,
        *,
        update: Callable[[list[Sample]], dict[str, Tensor]],
        evaluate: Callable[[], dict[str, float]],
        checkpointer: Checkpointer,
        reporter: Reporter,
        routine: Routine,
        progress: Progress,
        stopping: Stopping | None = None,
    ):
        self.update, self.evaluate = update, evaluate
        self.checkpointer, self.reporter = checkpointer, reporter
        self.routine, self.progress = routine, progress
        self.stopping = stopping or Stopping()
        self.stopwatch = Stopwatch()
        self._saved = time.monotonic()  # when there was a checkpoint that holds all steps

    def fit(self, batches: Iterable[list[Sample]]) -> None:
        """Trains on the batches, one optimizer step each, until they end or nothing improves any more.

        Raises Interrupted when it was asked to end: `last` holds all steps then, and an evaluation that was not
        done is made at the beginning of the next call.
        """
        self._saved = time.monotonic()
        self._evaluate()  # what a stopped run was in the middle of
        self.stopwatch.start()
        for samples in self.stopwatch.waiting(batches):
            if self.exhausted:
                log.info("No better %s in %d evaluations: stopping", self.routine.metric, self.progress.stale)
                break
            self.progress.losses.add(self.update(samples))
            self.stopwatch.stepped()
            self._after_step(self.routine.batch_size or len(samples))

    @property
    def exhausted(self) -> bool:
        """Whether nothing has improved for longer than the routine's patience."""
        return self.routine.patience is not None and self.progress.stale >= self.routine.patience

    def _after_step(self, batch_size: int) -> None:
        step = self.progress.step
        self.reporter.stepped(step)
        if self.routine.logs(step):
            losses = self.progress.losses.take()
            self.reporter.trained(step, losses, self.stopwatch.read(), batch_size)
        stop, due = self.stopping.agree(self.routine.is_time_to_save(time.monotonic() - self._saved))
        if stop or due or self.routine.saves(step):
            self._save("last")  # before an evaluation, which may take long
            if stop:
                raise Interrupted(stop)
            self._evaluate()
            self.stopwatch.start()

    def _save(self, *names: str) -> None:
        self.checkpointer.save(*names)
        self._saved = time.monotonic()

    def _evaluate(self) -> None:
        """Evaluates and saves, if the routine wants it at this step and it is not done."""
        if not self.routine.evaluates(self.progress.step) or self.progress.evaluated_step == self.progress.step:
            return
        metrics = self.progress.metrics = self.evaluate()
        self.progress.evaluated_step = self.progress.step
        before = self.progress.best, self.progress.best_step
        better = bool(metrics) and self.progress.judge(metrics[self.routine.metric])
        if metrics:
            self.reporter.evaluated(self.progress.step, metrics, self.routine.metric)
        self._save("last", *(["best"] if better else []))
        if better and self.checkpointer.gives_up("best"):  # no later checkpoint may count on it
            self.progress.best, self.progress.best_step = before
            log.error(
                "The evaluation of step %d does not count as the best: best.pt is not of it", self.progress.step
            )
