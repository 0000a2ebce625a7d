"""Attention on a CUDA device that is not there, by the kernel that torch would choose there.

Torch asks the device which kernels it has, and without one takes the plain formula, with a matrix of all pairs.
Follows aten/src/ATen/native/transformers of torch 2.8 to 2.14, for GPUs from Ampere (compute capability 8.0) on;
memory is what the kernels' functions for fake tensors say. Not run on CUDA.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_aten = torch.ops.aten
_plain = functional.scaled_dot_product_attention
_HALF = (torch.float16, torch.bfloat16)
_WIDEST = 256  # of heads that flash attention takes
_MASK = 16  # elements: rows of a mask begin at multiples of it


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Stands in for torch's function of the same arguments; (B, heads, tokens, width) each."""
    query, key, value = _in_autocast(query), _in_autocast(key), _in_autocast(value)
    if not query.is_cuda or query.dim() != 4 or enable_gqa:
        return _plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    width = query.shape[-1]
    if attn_mask is None and query.dtype in _HALF and width == value.shape[-1] <= _WIDEST:
        return _flash(query, key, value, dropout_p, is_causal, scale if scale is not None else width**-0.5)
    if width % (8 if query.dtype in _HALF else 4) or value.shape[-1] % (8 if query.dtype in _HALF else 4):
        return _plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    bias = None if attn_mask is None else _bias(_in_autocast(attn_mask), query, key)
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    return _aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, wanted, dropout_p, is_causal, scale=scale
    )[0]


def _flash(query: Tensor, key: Tensor, value: Tensor, *more: Any) -> Tensor:
    *given, scale = more
    width = query.shape[-1]
    if width % 8:
        query, key, value = (functional.pad(tensor, (0, -width % 8)) for tensor in (query, key, value))
    return _aten._scaled_dot_product_flash_attention(query, key, value, *given, scale=scale)[0][..., :width]


def _bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """What is added to the products: numbers of their type, rows aligned."""
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(query.dtype)
    tokens = mask.shape[-1]
    if tokens % _MASK:
        mask = functional.pad(mask, (0, -tokens % _MASK))[..., :tokens]
    return mask.expand(*query.shape[:3], key.shape[2])


def _in_autocast(tensor: Tensor) -> Tensor:
    """The function is among those that autocast gives half precision."""
    if tensor.is_cuda and tensor.is_floating_point() and torch.is_autocast_enabled("cuda"):
        return tensor.to(torch.get_autocast_dtype("cuda"))
    return tensor
