"""Tensors exchanged between processes in few pieces of bounded size."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

BYTES = 25 * 2**20
"""Of a bucket; a larger tensor has one for itself."""


class Buckets:
    """Tensors of which a collective changes the values, several at a time in a buffer.

    The buffers are made at once, so that nothing more is needed in the exchange. All processes must give tensors
    of the same shapes and types in the same order.
    """

    def __init__(self, tensors: Iterable[Tensor]):
        self._groups = list(_groups(tensors))
        kinds = {_kind(group[0]): 0 for group in self._groups}
        for group in self._groups:
            kinds[_kind(group[0])] = max(kinds[_kind(group[0])], sum(t.numel() for t in group))
        self.buffers = {kind: torch.empty(most, dtype=kind[0], device=kind[1]) for kind, most in kinds.items()}

    @torch.no_grad()
    def exchange(self, collective: Callable[[Tensor], object]) -> None:
        """The tensors get what `collective` makes, in place, of the buffers that hold them one after the other."""
        for group in self._groups:
            flat = self.buffers[_kind(group[0])][: sum(tensor.numel() for tensor in group)]
            parts = [
                part.view(tensor.shape) for part, tensor in zip(flat.split(_counts(group)), group, strict=True)
            ]
            for part, tensor in zip(parts, group, strict=True):
                part.copy_(tensor)
            collective(flat)
            for part, tensor in zip(parts, group, strict=True):
                tensor.copy_(part)


def _groups(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Tensors of one type and device, up to the size of a bucket together, in their order."""
    open_groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        group = open_groups.setdefault(_kind(tensor), [])
        if group and sum(each.nbytes for each in group) + tensor.nbytes > BYTES:
            yield group
            group = open_groups[_kind(tensor)] = []
        group.append(tensor)
    yield from open_groups.values()


def _kind(tensor: Tensor) -> tuple[torch.dtype, torch.device]:
    return tensor.dtype, tensor.device


def _counts(group: list[Tensor]) -> list[int]:
    return [tensor.numel() for tensor in group]
