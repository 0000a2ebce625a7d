"""Adaptive pooling written out, for exporters that know no pooling to a fixed grid from an unknown size."""

import torch
from torch import Tensor, nn


class WrittenOutPool(nn.Module):
    """`nn.AdaptiveAvgPool2d`, to rounding, as two products of matrices that follow from the size of its input."""

    def __init__(self, cells: tuple[int, int]):
        super().__init__()
        self.cells = cells

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) floats to (B, C, *cells)."""
        down, across = (_averages(x.shape[axis], self.cells[axis], x) for axis in (-2, -1))
        return down @ x @ across.T


def write_out_pools(module: nn.Module) -> None:
    """Exchanges the adaptive poolings in a module, but for those that average over everything."""
    for name, child in module.named_children():
        if isinstance(child, nn.AdaptiveAvgPool2d):
            cells = child.output_size if isinstance(child.output_size, tuple) else (child.output_size,) * 2
            if cells != (1, 1) and None not in cells:
                setattr(module, name, WrittenOutPool((int(cells[0]), int(cells[1]))))  # type: ignore[arg-type]
        else:
            write_out_pools(child)


def _averages(length: int, cells: int, like: Tensor) -> Tensor:
    """Weights (cells, length): cell i averages from floor(i length / cells) to ceil((i + 1) length / cells)."""
    cell = torch.arange(cells, device=like.device)[:, None]
    start, end = cell * length // cells, ((cell + 1) * length + cells - 1) // cells
    place = torch.arange(length, device=like.device)
    return ((place >= start) & (place < end)).to(like.dtype) / (end - start)
