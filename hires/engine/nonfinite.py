"""Steps with a loss or a gradient that is not finite: nothing is learnt from them, and what was wrong is told."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hires.engine.display import ALIKE
from hires.engine.progress import Progress
from hires.engine.ranks import Alone, Ranks
from hires.engine.step import Losses
from hires.engine.undo import BufferCopies
from hires.interfaces import CommonError, Sample

log = logging.getLogger(__name__)

_NAMED = 3  # parameters that a message names
_ALONE = Alone()
_LEAST_SCALE = 1.0
"""Below it infinities are no longer made by the scaling, which would go down for ever where gradients stay NaN."""


class Guard:
    """Lets an update pass only when all losses and gradients of the optimizer batch are finite.

    Of a step that it stops, parameters, optimizer, scaler and buffers are as they were. `progress` counts them;
    more than `limit` lately end the training. As many steps in a row that passed make it forget those before.
    `scale`: gradients are those of a loss that a scaler multiplies by it (16-mixed). Infinities are the scaler's,
    so that only losses count as long as it is at least 1. `state` says in words how the training is done, `advice`
    what to try when it ends.
    """

    def __init__(
        self,
        task: nn.Module,
        progress: Progress,
        limit: int,
        *,
        scale: Callable[[], float] | None = None,
        ranks: Ranks = _ALONE,
        state: Callable[[], str] = lambda: "",
        advice: str = "",
    ):
        self.task, self.progress, self.limit, self.ranks = task, progress, limit, ranks
        self.scale, self.state, self.advice = scale, state, advice
        self._buffers = BufferCopies(task)
        self._own: Losses = {}
        self._norm: Tensor | None = None

    def begin(self) -> None:
        """Notes the buffers, which a forward changes: running statistics do not get rid of a NaN any more."""
        self._buffers.note()

    def checked(self, losses: Losses) -> Losses:
        """The losses of this process, the first one NaN where its gradients are not finite.

        In this way what adds up the losses of all processes tells all of them; a finite loss keeps its bits.
        """
        self._own, self._norm = losses, None
        if self.scale is not None:
            return losses
        self._norm = _norm(gradient for _, gradient in _gradients(self.task))
        name, loss = next(iter(losses.items()))
        return {**losses, name: loss + (0 * self._norm).to(loss)}

    def passes(self, losses: Losses, samples: list[Sample]) -> bool:
        """Whether the losses of the whole batch are finite. Raises CommonError when too many were not."""
        # The one moment at which a step waits for the device: only the update is left to be queued then, so that
        # the device idles while that begins, as it does for GradScaler. Optimizers do not take a condition on the
        # device (but for fused ones), and to undo an update takes as much memory as all that it changes.
        if bool(torch.isfinite(torch.stack(list(losses.values()))).all()) and not self._beyond_scaling():
            return True
        self._buffers.restore()
        self._count(samples)
        return False

    def _beyond_scaling(self) -> bool:
        """Whether gradients are not finite that no smaller scale would make so; the same in all processes."""
        if self.scale is None or self.scale() >= _LEAST_SCALE:
            return False
        self._norm = _norm(gradient for _, gradient in _gradients(self.task))  # of the whole batch by now
        return bool(self.ranks.most(torch.tensor([not self._norm.isfinite()], dtype=torch.int32)).item())

    def _count(self, samples: list[Sample]) -> None:
        progress, step = self.progress, self.progress.step + 1
        what, names = self._found(samples)
        if step - progress.last_skip > self.limit:
            progress.recent_skips = 0
        if not progress.recent_skips:
            progress.first_skip = f"step {step} ({what})"
        progress.skipped += 1
        progress.recent_skips += 1
        progress.last_skip = step
        log.warning(
            "step %d: %s; the update is skipped (%d, at most %d). Images of the batch: %s",
            *(step, what, progress.recent_skips, self.limit, ", ".join(names)),
            extra=ALIKE,
        )
        if progress.recent_skips > self.limit:
            raise CommonError(
                f"step {step}: the training diverged: {progress.recent_skips} updates had to be skipped lately, "
                f"trainer.max_skipped is {self.limit}; at first {progress.first_skip}; {self.state()}. "
                f"{self.advice}"
            )

    def _found(self, samples: list[Sample]) -> tuple[str, list[str]]:
        """What was not finite, in words, and the images of the processes that had it."""
        wrong = {name: float(loss) for name, loss in self._own.items() if not math.isfinite(loss)}
        had = bool(wrong) or (self._norm is not None and not math.isfinite(self._norm))
        own = list(dict.fromkeys(sample.name for sample in samples))
        shares = self.ranks.gather((wrong, own if had else []))
        names = [name for _, share in shares for name in share] or own
        losses = {name: value for wrong, _ in shares for name, value in wrong.items()}
        if losses:
            return "; ".join(f"loss {name} is {value}" for name, value in losses.items()), names
        return _described(
            [name for name, gradient in _gradients(self.task) if not _norm([gradient]).isfinite()]
        ), names


def _described(parameters: list[str]) -> str:
    more = f" and {len(parameters) - _NAMED} more" if len(parameters) > _NAMED else ""
    of = f" of {', '.join(parameters[:_NAMED])}{more}" if parameters else ""
    return f"the norm of the gradient{of} is not finite"


def _gradients(task: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Names and gradients; of sharded ones the part that this process has."""
    for name, parameter in task.named_parameters():
        gradient: Any = parameter.grad
        if gradient is not None:
            yield (
                name.replace("_orig_mod.", ""),
                gradient.to_local() if hasattr(gradient, "to_local") else gradient,
            )


def _norm(gradients: Iterable[Tensor]) -> Tensor:
    """A scalar on their device, the fastest that shows a NaN or an infinity.

    It overflows where squares do, as those that optimizers keep then would.
    """
    return torch.nn.utils.get_total_norm(list(gradients))
