"""What autograd keeps of a forward: a tensor that stays, or one that a call can make again.

Reads where tensors come from in the graph: `_base` of views, the version that counts changes in place.
"""

import weakref
from typing import Any, Protocol

from torch import Tensor

from hires.interfaces import TrainingError


class RecomputeError(TrainingError):
    """A module did not do the same twice, or cannot be run twice."""


class Maker(Protocol):
    """A call of a module, which can be run again."""

    segment: str

    def expect(self, index: int) -> None:
        """Says that the tensor of an index is going to be wanted once more."""

    def again(self, index: int) -> Tensor:
        """The tensor of an index."""


class Kept:
    """A tensor that stays, and must stay as it is."""

    def __init__(self, tensor: Tensor):
        self._tensor, self._version = tensor, tensor._version

    def get(self) -> Tensor:
        if self._tensor._version != self._version:
            shape = list(self._tensor.shape)
            raise RecomputeError(
                f"a tensor of shape {shape} that the backward needs has been changed in place since it was used; "
                "set the policy of what used it to none"
            )
        return self._tensor


class Forgotten:
    """A tensor that a call saves or returns, or a view `like` of it: made again when wanted."""

    def __init__(self, call: Maker, index: int, like: Tensor):
        self._call, self._index = call, index
        self._geometry = (like.size(), like.stride(), like.storage_offset())
        call.expect(index)

    def get(self) -> Tensor:
        tensor = self._call.again(self._index)
        if (tensor.size(), tensor.stride(), tensor.storage_offset()) == self._geometry:
            return tensor
        return tensor.as_strided(*self._geometry)


Saved = Kept | Forgotten
_KEY = "hires.memory.saved"  # in the metadata of the nodes of the graph


def sign(result: Tensor, call: Maker, index: int) -> None:
    """Notes in the graph that a tensor is what a call returned; the graph does not keep the call alive."""
    assert result.grad_fn is not None
    signatures: dict[Any, Any] = result.grad_fn.metadata  # type: ignore[assignment]
    signatures[_KEY, result.output_nr] = weakref.ref(call), index, result._version


def maker_of(tensor: Tensor, segment: str) -> tuple[Maker, int] | None:
    """The call of a segment that returned the tensor, or that of which it is a view, and the index in it."""
    root = root_of(tensor)
    if root.grad_fn is None or not _same_numbers(tensor, root):
        return None
    signatures: dict[Any, Any] = root.grad_fn.metadata  # type: ignore[assignment]
    reference, index, version = signatures.get((_KEY, root.output_nr), (None, 0, 0))
    call = reference and reference()
    return (call, index) if call and call.segment == segment and root._version == version else None


def argument(tensor: Tensor, segment: str) -> Saved:
    """What is kept of an argument: nothing, where a call of the segment made it."""
    made = maker_of(tensor, segment)
    return Forgotten(*made, tensor) if made else Kept(tensor)


def saved(tensor: Tensor, segment: str) -> Saved:
    """As `argument`, without the graph: a node that saves what it returns would keep itself alive."""
    made = maker_of(tensor, segment)
    return Forgotten(*made, tensor) if made else Kept(tensor.detach())


def _same_numbers(view: Tensor, root: Tensor) -> bool:
    """Whether a view reads the memory as its root does, and not as conjugates or parts of complex numbers."""
    return (view.dtype, view.is_conj(), view.is_neg()) == (root.dtype, root.is_conj(), root.is_neg())


def root_of(tensor: Tensor) -> Tensor:
    """The tensor of which it is a view, or itself."""
    return tensor if tensor._base is None else tensor._base


def is_parameter(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter or a view of one."""
    root = root_of(tensor)
    return root.is_leaf and root.requires_grad
