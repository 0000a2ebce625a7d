"""What a step took on CUDA in 2020 and takes no more, so that figures of that time can be compared.

- Until October 2021 (pytorch pull request 66018), softmax and log_softmax kept their input for backward, not only
  their result.
- Without benchmarking, cuDNN 7 took the non-fused Winograd algorithm F(4x4, 3x3) for 3x3 convolutions. Its
  workspace is the transformed input, output and filter. That it took it is concluded from the figures, not seen;
  the formula follows from the algorithm, and no number in it is fitted.
- cuBLAS had its workspace from elsewhere than torch's allocator (until torch 1.13, pytorch issue 95668).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class KeptInput(torch.autograd.Function):
    """softmax or log_softmax that keeps its input too."""

    @staticmethod
    def forward(context: Any, x: Tensor, dim: int, name: str) -> Tensor:
        result = getattr(torch, name)(x, dim)
        context.save_for_backward(result, x)
        context.dim, context.name = dim, name
        return result

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        result = context.saved_tensors[0]
        backward = getattr(torch.ops.aten, f"_{context.name}_backward_data")
        return backward(gradient, result, context.dim, result.dtype), None, None


class KeepsInputs(TorchFunctionMode):
    """Within, softmax and cross entropy keep their inputs."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is F.softmax:
            return KeptInput.apply(args[0], kwargs["dim"], "softmax")
        if function is F.cross_entropy:
            given = {name: kwargs[name] for name in ("ignore_index", "reduction") if name in kwargs}
            return F.nll_loss(KeptInput.apply(args[0], 1, "log_softmax"), args[1], **given)
        return function(*args, **kwargs)


class Winograd:
    """Workspace of non-fused Winograd F(4x4, 3x3) where it can serve, forward and back alike."""

    fixed = 0  # cuBLAS's is not counted

    def __call__(self, function: Any, args: Any, result: Any) -> int:
        backward = function is torch.ops.aten.convolution_backward.default
        if not backward and function is not torch.ops.aten.convolution.default:
            return 0
        x, weight = args[1:3] if backward else args[:2]
        stride, _, dilation, transposed, _, groups = args[4:10] if backward else args[3:9]
        if weight.shape[2:] != (3, 3) or transposed or groups > 1 or {*stride, *dilation} != {1}:
            return 0
        outputs, inputs = weight.shape[:2]
        tiles = len(x) * -(-x.shape[2] // 4) * -(-x.shape[3] // 4)
        return 36 * x.element_size() * (inputs * tiles + outputs * tiles + outputs * inputs)
