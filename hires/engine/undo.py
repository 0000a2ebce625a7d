"""What an optimizer step changes and cannot compute again, noted so that a step that failed can be undone."""

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hires.ops.nested import leaves
from hires.ops.random_state import WholeRandomState


class Undo:
    """Undoes a step that did not come to change parameters: buffers, random numbers, scaler, gradients.

    Parameters and the state of the optimizer are not copied, which would take as much memory as they do: a step
    that has begun to change them cannot be undone. `scaler` is that of half precision, None without.
    """

    def __init__(self, task: nn.Module, optimizer: torch.optim.Optimizer, scaler: Any | None):
        self._task, self._optimizer, self._scaler = task, optimizer, scaler
        self._buffers = BufferCopies(task)

    def note(self) -> None:
        """Notes what is there before a step, whose gradients do not exist yet."""
        self._buffers.note()
        self._random = WholeRandomState()
        # all of it: what the scaler knows of the step it is in is not in its state_dict
        self._attributes = copy.deepcopy(vars(self._scaler)) if self._scaler else {}
        self._update = UpdateNote(self._optimizer)

    @torch.no_grad()
    def undo(self) -> bool:
        """Brings back what was noted and drops the gradients; false, when parameters may have changed.

        To be called once for each note.
        """
        for parameter in self._task.parameters():
            parameter.grad = None
        if self._update.has_begun:
            return False
        self._update.restore()
        self._buffers.restore()
        self._random.set()
        if self._scaler:
            vars(self._scaler).update(self._attributes)
        return True


class Unchanged:
    """Tells whether tensors are as they were when this was made."""

    def __init__(self, tensors: Iterable[Tensor]):
        # which counts changes in place, as all optimizers make them
        self._versions = [(tensor, tensor._version) for tensor in tensors]

    def __call__(self) -> bool:
        return all(tensor._version == version for tensor, version in self._versions)


class UpdateNote:
    """An optimizer before its step."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        self._optimizer = optimizer
        self._state = {key: _shallow(value) for key, value in optimizer.state.items()}
        self._groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        self._unchanged = Unchanged((*parameters, *leaves(list(self._state.values()), Tensor)))

    @property
    def has_begun(self) -> bool:
        """Whether a parameter, or state that was there before, has been changed."""
        return not self._unchanged()

    def restore(self) -> None:
        """Forgets what the step has begun: state made for parameters that had none, counters."""
        state = self._optimizer.state
        for key in [key for key in state if key not in self._state]:
            del state[key]
        for key, value in self._state.items():
            state[key] = value
        for group, values in zip(self._optimizer.param_groups, self._groups, strict=True):
            group.update(values)


def _shallow(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


class Buffer(NamedTuple):
    """A buffer of a module, and what was in it."""

    owner: nn.Module
    name: str
    tensor: Tensor
    copy: Tensor

    def restore(self) -> None:
        if getattr(self.owner, self.name) is not self.tensor:
            setattr(self.owner, self.name, self.tensor)
        self.tensor.copy_(self.copy)


class BufferCopies:
    """Copies of the buffers of a module; all of them: norms change theirs without counting it as a change."""

    def __init__(self, module: nn.Module):
        self._module = module
        self._buffers: dict[tuple[str, str], Buffer] = {}

    @torch.no_grad()
    def note(self) -> None:
        """Copies the buffers as they are, into the memory of the copies before."""
        before = self._buffers
        self._buffers = {
            (path, name): Buffer(owner, name, tensor, _copied(tensor, before.get((path, name))))
            for path, owner in self._module.named_modules()
            for name, tensor in owner.named_buffers(recurse=False)
        }

    def restore(self) -> None:
        for buffer in self._buffers.values():
            buffer.restore()


def _copied(tensor: Tensor, before: Buffer | None) -> Tensor:
    old = None if before is None else before.copy
    if old is None or (old.shape, old.dtype, old.device) != (tensor.shape, tensor.dtype, tensor.device):
        return tensor.detach().clone()
    return old.copy_(tensor)
