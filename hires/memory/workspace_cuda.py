"""An allowance for what kernels take for themselves on CUDA. Not measured: not run on CUDA."""

from typing import Any

import torch
from torch import Tensor

from hires.memory.costs import size_of

CUBLAS = 4096 * 1024 * 2 + 16 * 1024 * 8
"""Bytes of the workspace that torch gives cuBLAS for good: CUBLAS_WORKSPACE_CONFIG, `:4096:2:16:8` by default
(32 MiB on Hopper)."""
_CONVOLUTIONS = (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default)


class CudaWorkspace:
    """cuBLAS's workspace, and for dense convolutions that are not channels last, copies in that layout.

    Matrix units of GPUs work on channels-last data; cuDNN brings other data into that layout, and the result back.
    """

    fixed = CUBLAS

    def __call__(self, function: Any, args: Any, result: Any) -> int:
        if function not in _CONVOLUTIONS:
            return 0
        tensors = [a for a in args if isinstance(a, Tensor)][:2]
        if args[-2 if function is _CONVOLUTIONS[1] else -1] != 1 or _is_channels_last(tensors[0]):
            return 0
        outputs = [result] if isinstance(result, Tensor) else []
        return sum(map(size_of, [*tensors, *outputs]))


def _is_channels_last(tensor: Tensor) -> bool:
    return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
