"""What `forward` of a module becomes under each policy. `module.__dict__[APPLIED]` says which unit it is in."""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from hires.memory.layers import keeps_result
from hires.memory.offload import Offload
from hires.memory.recompute import Call, is_inside, keeping
from hires.memory.saved import maker_of
from hires.ops.nested import leaves

APPLIED = "_activation_checkpointing"


class Applied(NamedTuple):
    """The unit that a module is in."""

    name: str
    segment: str
    offload: Offload | None = None


def keep_input(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`full`: nothing but the arguments is kept."""
    forward = partial(type(module).forward, module)
    if torch.compiler.is_compiling():
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)
    applied: Applied = module.__dict__[APPLIED]
    if not _has_use(module, args, kwargs) or _overwrites(module, args, kwargs, applied.segment):
        return forward(*args, **kwargs)
    return Call(module, forward, applied.name, applied.segment)(args, kwargs)


def keep_heavy(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`selective`: what layers under `forget_layer` return is not kept, everything else is."""
    forward = partial(type(module).forward, module)
    if torch.compiler.is_compiling():
        contexts = partial(create_selective_checkpoint_contexts, _policy_of_operation)
        return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)
    if not _has_use(module, args, kwargs):
        return forward(*args, **kwargs)
    with keeping(module.__dict__[APPLIED].segment):
        return forward(*args, **kwargs)


def forget_layer(layer: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """A norm or an activation function in a unit under `selective`: run again from its input."""
    forward = partial(type(layer).forward, layer)
    applied: Applied = layer.__dict__[APPLIED]
    if torch.compiler.is_compiling() or not _has_use(layer, args, kwargs):
        return forward(*args, **kwargs)
    if (keeps_result(layer) and _any_kept(args, kwargs, applied.segment)) or _overwrites(
        layer, args, kwargs, applied.segment
    ):
        return forward(*args, **kwargs)
    return Call(layer, forward, f"{applied.name} ({type(layer).__name__})", applied.segment)(args, kwargs)


def keep_elsewhere(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`offload`: what is kept lies in other memory until the backward wants it."""
    forward = partial(type(module).forward, module)
    offload = module.__dict__[APPLIED].offload
    if torch.compiler.is_compiling() or not _has_use(module, args, kwargs):
        return forward(*args, **kwargs)
    with offload.hooks():
        return forward(*args, **kwargs)


def _has_use(module: nn.Module, args: Any, kwargs: Any) -> bool:
    """Whether gradients pass through a module, here and now, and no module around it saves the memory already."""
    if not torch.is_grad_enabled() or is_inside():
        return False
    tensors = (*module.parameters(), *leaves((args, kwargs), Tensor))
    return any(tensor.requires_grad for tensor in tensors)


def _overwrites(module: nn.Module, args: Any, kwargs: Any, segment: str) -> bool:
    """Whether a layer changes its input in place, and nobody can make that again."""
    return bool(getattr(module, "inplace", False)) and _any_kept(args, kwargs, segment)


def _any_kept(args: Any, kwargs: Any, segment: str) -> bool:
    return any(maker_of(tensor, segment) is None for tensor in leaves((args, kwargs), Tensor))


_KEPT_OPERATIONS = tuple(
    getattr(torch.ops.aten, name)
    for name in (
        "mm",
        "addmm",
        "bmm",
        "convolution",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_cudnn_attention",
    )
)


def _policy_of_operation(_: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """The same choice in compiled code, by operation."""
    heavy = getattr(operation, "overloadpacket", operation) in _KEPT_OPERATIONS
    return CheckpointPolicy.MUST_SAVE if heavy else CheckpointPolicy.PREFER_RECOMPUTE
