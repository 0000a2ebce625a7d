"""Goes on when memory runs out in training: the step is undone, and done again in a way that needs less.

The ways are the rungs of the memory plan, in their order. Neither the images nor the batch that the optimizer sees
change. Not run on CUDA.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from hires.engine.display import ALIKE
from hires.engine.ema import Averaged
from hires.engine.progress import Progress
from hires.engine.shortage import Shortage, attempt, in_two_tries, release
from hires.engine.undo import Unchanged, Undo
from hires.interfaces import CommonError, MemoryPlan, Sample, TrainingError

log = logging.getLogger(__name__)

Losses = dict[str, Tensor]


class Ladder:
    """The plan in use, with the rungs below it, and how many have been stepped down; part of a checkpoint."""

    def __init__(self, plan: MemoryPlan):
        self.plan, self.used = plan, 0
        self._rungs = [_said(rung) for rung in plan.rungs]

    def step_down(self) -> None:
        """The next rung becomes the plan; there must be one."""
        first, *rest = self.plan.rungs
        self.plan = replace(first, rungs=tuple(rest))
        self.used += 1

    def state_dict(self) -> dict[str, Any]:
        return {"used": self.used, "rungs": self._rungs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Steps down to the rung of a checkpoint; a plan with other rungs is begun at its top."""
        used, rungs = state["used"], state["rungs"]
        if rungs == self._rungs:
            while self.used < used:
                self.step_down()
        elif [_said(self.plan), *self._rungs] in (rungs[at:] for at in range(len(rungs))):  # saved on a rung
            self.used, self._rungs = len(rungs) - len(self._rungs), rungs
            if self.used > used:
                log.info("The run fell back after its last checkpoint: it goes on with the rung of then")
        elif used:
            log.info("The memory plan is another than that of the checkpoint: it is used from its beginning")


def _said(plan: MemoryPlan) -> list[Any]:
    return [plan.micro_batch_size, dict(plan.policies)]


class Recovering:
    """An optimizer step that is done again on the next rung when memory runs out.

    `step` takes samples and the size of a micro-batch, and returns losses; `apply` gives the model the policies
    of a plan; `on_change` is told the plan that is used from then on. Where the plan has no rungs from the
    beginning, errors pass as they are and nothing is noted.
    """

    def __init__(
        self,
        step: Callable[..., Losses],
        ladder: Ladder,
        *,
        undo: Undo,
        apply: Callable[[MemoryPlan], Any],
        on_change: Callable[[MemoryPlan], Any],
        progress: Progress,
    ):
        self.step, self.ladder, self.undo = step, ladder, undo
        self.apply, self.on_change, self.progress = apply, on_change, progress
        self._strain: Shortage | None = None

    def __call__(self, samples: list[Sample], **changes: Any) -> Losses:
        """One step on an optimizer batch; `changes` are arguments of `step`.

        Of several processes, each does the same. Raises CommonError when memory ran out on the last rung, or when
        parameters have already been changed.
        """
        while True:
            plan = self.ladder.plan
            run = partial(self.step, samples, micro_batch_size=plan.micro_batch_size, **changes)
            if not plan.rungs and not self.ladder.used:
                return run()
            if plan.rungs:
                self.undo.note()
            outcome = attempt(run)
            if not isinstance(outcome, Shortage):
                self._relieve()
                return outcome
            if not plan.rungs:
                raise CommonError(self._exhausted(outcome))
            self._fall_back(outcome)

    def strained(self, shortage: Shortage) -> None:
        """To be told that a step lacked memory, although it will be done: those that follow go down a rung."""
        self._strain = shortage

    def _relieve(self) -> None:
        if self._strain is not None and self.ladder.plan.rungs:
            self._step_down(self._strain, "the update was done in a second try; all steps that follow")
        self._strain = None

    def _fall_back(self, shortage: Shortage) -> None:
        """To where the step began, and down to the next rung.

        Also when it was the update that lacked memory: a rung frees nothing there, but what the caches of the
        allocator held is free now, and the backward leaves it less torn.
        """
        if not self.undo.undo():
            raise CommonError(self._half_done(shortage))
        release()
        self._step_down(shortage, "the same batch again, and all that follow,")

    def _step_down(self, shortage: Shortage, what: str) -> None:
        before = self.ladder.plan
        self.ladder.step_down()
        plan = self.ladder.plan
        log.warning(
            "step %d: out of memory with %s (%s); %s with %s",
            self._number,
            described(before),
            shortage.reason,
            what,
            described(plan),
            extra=ALIKE,
        )
        self.apply(plan)
        self.on_change(plan)

    @property
    def _number(self) -> int:
        return self.progress.step + 1

    def _exhausted(self, shortage: Shortage) -> str:
        plan = self.ladder.plan
        return (
            f"step {self._number}: out of memory with {described(plan)} at image_size={list(plan.image_size)}, "
            f"and the memory plan has nothing left to fall back to ({shortage.reason}); let `hires autobatch` "
            "find what fits, or set a smaller image_size"
        )

    def _half_done(self, shortage: Shortage) -> str:
        return (
            f"step {self._number}: out of memory in the update of the parameters, which is half done "
            f"({shortage.reason}); resume=RUN goes on from the last checkpoint, with a smaller "
            "micro_batch_size if it happens again"
        )


class Averaging:
    """Averages weights after a step; when memory runs out in that, once more with what nobody holds released.

    The step itself is done by then and cannot be undone. Processes do not tell each other: what each averages is
    its own.
    """

    def __init__(self, average: Averaged):
        self.average = average

    def __call__(self, step: int) -> None:
        """Raises TrainingError where the second try lacks memory, or the first one has changed some weights."""
        shortage, done = in_two_tries(partial(self.average.update, step), Unchanged(self.average.averaged()))
        if not done and shortage is not None:
            raise TrainingError(
                f"step {step}: out of memory while the weights were averaged ({shortage.reason}); resume=RUN goes "
                "on from the last checkpoint, with a smaller micro_batch_size if it happens again"
            )
        if shortage is not None:
            what = "step %d: out of memory while the weights were averaged (%s); done in a second try"
            log.warning(what, step, shortage.reason)


def described(plan: MemoryPlan) -> str:
    """The micro-batch of a plan, and how many units have which policy."""
    counts = Counter(policy for policy in plan.policies.values() if policy != "none")
    shares = [f"{policy} for {count} of {len(plan.policies)} units" for policy, count in counts.most_common()]
    return ", ".join([f"micro-batches of {plan.micro_batch_size}", *(shares or ["no checkpointing"])])
