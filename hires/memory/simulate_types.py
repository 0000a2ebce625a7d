"""Where kernels give other types, layouts or storages than fake tensors say."""

from typing import Any

import torch

from hires.ops.nested import leaves

_aten = torch.ops.aten
_NORMS = (_aten.native_batch_norm.default, _aten.native_layer_norm.default, _aten.native_group_norm.default)
_LOSSES = (
    _aten.binary_cross_entropy.default,
    _aten.mse_loss.default,
    _aten.smooth_l1_loss.default,
    _aten.soft_margin_loss.default,
)
_CONVOLUTIONS = (_aten.convolution.default, _aten.convolution_backward.default)


def as_kernels(function: Any, args: Any, result: Any) -> Any:
    """The result of an operation on fake tensors as its kernel makes it.

    On the CPU a norm with parameters in float32 has such statistics, whatever its input is; the gradient of a
    group norm's input is of its type; a loss that is reduced lies in the memory of what it is reduced from. On
    CUDA, results of a convolution are channels last if its image or weights are, by cuDNN, which may not be here.
    """
    if function in _CONVOLUTIONS and args[0].device.type == "cuda":
        return _convolution(function, args, result)
    if function in _NORMS and args[0].device.type == "cpu":
        return _norm(function, args, result)
    if function is _aten.native_group_norm_backward.default and result[0] is not None:
        return (result[0].to(args[1].dtype), *result[1:])
    if function in _LOSSES and result.dim() == 0:
        shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
        return result.new_empty(shape).as_strided((), ())
    return result


def _norm(function: Any, args: Any, result: Any) -> Any:
    output, *statistics = result
    if any(tensor.dtype != output.dtype for tensor in leaves(args, torch.Tensor)):
        statistics = [statistic.float() for statistic in statistics]
    if function is _NORMS[0] and args[0].is_contiguous():
        output = output.new_empty(output.shape)  # maps of one pixel are in both layouts: not channels last
    return (output, *statistics)


def _convolution(function: Any, args: Any, result: Any) -> Any:
    operands = args[:2] if function is _CONVOLUTIONS[0] else args[1:3]
    if not any(map(_is_channels_last, operands)):
        return result
    if isinstance(result, torch.Tensor):
        return _channels_last(result)
    return tuple(each if each is None else _channels_last(each) for each in result)


def _is_channels_last(tensor: torch.Tensor) -> bool:
    """By its strides, as cuDNN is chosen by: weights of 1x1 convolutions are contiguous in both layouts."""
    if tensor.dim() != 4:
        return False
    _, channels, _, width = tensor.shape
    return tensor.stride()[1:] == (1, channels * width, channels)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() != 4 or _is_channels_last(tensor):
        return tensor
    return torch.empty_like(tensor, memory_format=torch.channels_last)
