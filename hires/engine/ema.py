"""Averaged weights that are evaluated instead of the trained ones."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from timm.utils import ModelEmaV3
from torch import Tensor, nn


class Averaged(Protocol):
    """What the loop needs of averaged weights."""

    @property
    def module(self) -> nn.Module:
        """The task to evaluate; it may have all its weights only in `whole`."""

    def whole(self) -> AbstractContextManager[nn.Module]:
        """The task to evaluate, with all its weights for as long as this lasts."""

    def averaged(self) -> list[Tensor]:
        """The parameters that an update mixes with those of the task."""

    def update(self, step: int) -> None:
        """Takes in the weights of the task after a step."""

    def decay(self, step: int) -> float | None:
        """Share of the average that stays in this step; None: there is no average."""

    def state_dict(self) -> dict[str, Any] | None: ...

    def load_state_dict(self, state: dict[str, Any] | None) -> None: ...


class NoAverage:
    """No average: the trained weights themselves are evaluated."""

    def __init__(self, task: nn.Module):
        self.module = task

    def whole(self) -> AbstractContextManager[nn.Module]:
        return nullcontext(self.module)

    def decay(self, step: int) -> None:
        return None

    def averaged(self) -> list[Tensor]:
        return []

    def update(self, step: int) -> None:
        pass

    def state_dict(self) -> None:
        return None

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        pass


class ExponentialAverage:
    """Exponential moving average of parameters and buffers, with timm's warm-up of the decay."""

    def __init__(self, task: nn.Module, decay: float):
        self._task = task
        self._average = ModelEmaV3(task, decay=decay, use_warmup=True)

    @property
    def module(self) -> nn.Module:
        return self._average.module

    def whole(self) -> AbstractContextManager[nn.Module]:
        return nullcontext(self.module)

    def decay(self, step: int) -> float:
        return self._average.get_decay(step)

    def averaged(self) -> list[Tensor]:
        return list(self.module.parameters())

    def update(self, step: int) -> None:
        self._average.update(self._task, step=step)

    def state_dict(self) -> dict[str, Any]:
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Continues an average, or begins one at the task's weights where there was none."""
        self.module.load_state_dict(self._task.state_dict() if state is None else state)


def make_average(task: nn.Module, decay: float | None) -> Averaged:
    """The average of a task's weights, made before anything wraps the task."""
    return NoAverage(task) if decay is None else ExponentialAverage(task, decay)
