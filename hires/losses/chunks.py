"""Rows of logits and masks in chunks, so that nothing of full resolution in float32 is larger than one of them.

Chunks follow from shapes alone, never from device, precision or memory policy: their sums add up to the same
bits in every policy.
"""

from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

CHUNK_ELEMENTS = 4 * 2**20
"""Most elements of the logits that a chunk has at full resolution: 16 MiB in float32.

The halo comes on top of it, and a chunk has at least what follows from one row of logits. Below 32 MiB, since
glibc fetches what is larger from the system and gives it back every time.
"""


class RowChunk(NamedTuple):
    """Rows of the masks, and the rows of the logits that they follow from; all are numbers of rows."""

    top: int  # first row of the masks
    height: int  # of the masks
    first: int  # row of the logits, halo included
    rows: int  # of the logits, halo included
    shared: int  # the last of those, which the next chunk begins with
    scaled: int  # those of the logits, scaled up
    crop: int  # of the scaled ones, above those of the masks


def row_chunks(shape: torch.Size, size: torch.Size, *, whole: bool = False) -> list[RowChunk]:
    """Chunks of about equal height that cover masks of `size` (H, W) once, for logits of `shape` (B, K, h, w).

    One if they must see the `whole`, and where h does not divide H: the scaling then has a phase of its own
    in every row.
    """
    batch, classes, rows, _ = shape
    factor, rest = divmod(size[0], rows)
    if whole or rest:
        return [RowChunk(0, size[0], 0, rows, 0, size[0], 0)]
    most = max(1, CHUNK_ELEMENTS // (batch * classes * factor * size[1]))  # rows of logits a chunk
    step = ceil(rows / ceil(rows / most))
    return [_row_chunk(start, min(rows, start + step), rows, factor) for start in range(0, rows, step)]


def _row_chunk(start: int, stop: int, rows: int, factor: int) -> RowChunk:
    """The chunk that follows from `rows` of logits, [start, stop) of them without a halo."""
    halo = int(factor > 1)  # what bilinear scaling looks at on either side
    first, last = max(0, start - halo), min(rows, stop + halo)
    return RowChunk(
        top=start * factor,
        height=(stop - start) * factor,
        first=first,
        rows=last - first,
        shared=2 * halo if stop < rows else 0,
        scaled=(last - first) * factor,
        crop=(start - first) * factor,
    )


def upsample(logits: Tensor, size: tuple[int, int] | torch.Size) -> Tensor:
    """Bilinear, to (height, width); the tensor itself when it has that size."""
    if logits.shape[-2:] == torch.Size(size):
        return logits
    return F.interpolate(logits, size=tuple(size), mode="bilinear", align_corners=False)


def upsample_rows(logits: Tensor, scaled: int, crop: int, size: torch.Size) -> Tensor:
    """Logits of a chunk at the `size` (height, width) of its masks: `scaled` rows without the first `crop`."""
    logits = upsample(logits, (scaled, size[1]))
    if scaled != size[0]:  # a cut that takes all would copy in backward nevertheless
        logits = logits.narrow(2, crop, size[0])
    return logits.contiguous()  # once, since each softmax would copy what is not


@torch.compiler.disable
def take_rows(logits: Tensor, chunk: RowChunk) -> tuple[Tensor, Tensor]:
    """The rows of a chunk, and the logits from which the next chunk, the one below, is to be taken."""
    if chunk.rows == logits.shape[2] and chunk.scaled == chunk.height:  # the only chunk
        return logits, logits
    return TakeRows.apply(logits, chunk.first, chunk.rows, chunk.shared)


class TakeRows(torch.autograd.Function):
    """`count` rows of logits (B, K, h, w) from `first` on, and the logits again; both are views.

    Backward of plain indexing makes a tensor of the size of all logits for each chunk. Here the chunks, each
    taken from what the one above it handed on, fill one tensor from the bottom to the top, as soon as each
    has its gradient: the last `shared` rows are added to those of the next chunk, the others are new.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, first: int, count: int, shared: int) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.shape, ctx.rows = logits.shape, (first, first + count - shared, first + count)
        channels_last = not logits.is_contiguous() and logits.is_contiguous(memory_format=torch.channels_last)
        ctx.layout = torch.channels_last if channels_last else torch.contiguous_format
        return logits.narrow(2, first, count), logits.view_as(logits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, rows: Tensor | None, below: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        """`below` has the gradients of all chunks below this one, and nothing yet above them."""
        first, filled, last = ctx.rows
        if below is None and rows is not None:
            below = torch.empty(ctx.shape, dtype=rows.dtype, device=rows.device, memory_format=ctx.layout)
            below[:, :, filled:] = 0
        if below is not None:
            below[:, :, first:filled] = 0 if rows is None else rows[:, :, : filled - first]
        if below is not None and rows is not None:
            below[:, :, filled:last] += rows[:, :, filled - first :]
        return below, None, None, None
