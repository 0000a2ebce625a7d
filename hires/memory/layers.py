"""The layers whose results `selective` does not keep: norms and pointwise functions."""

from collections.abc import Iterator

from torch import nn

ACTIVATIONS = ("torch.nn.modules.activation", "timm.layers.activations")
NOT_POINTWISE = ("MultiheadAttention", "Softmax")
KEEP_RESULT = (nn.ReLU, nn.Sigmoid, nn.Tanh)


def forgettable_layers(module: nn.Module) -> Iterator[nn.Module]:
    """Norms and activation functions within a module, or the module itself; a norm with what it contains."""
    if _is_norm(module) or _is_activation(module):
        yield module
    else:
        for child in module.children():
            yield from forgettable_layers(child)


def keeps_result(layer: nn.Module) -> bool:
    """Whether the backward of a layer needs its result and not its input, which nobody else may have kept."""
    return isinstance(layer, KEEP_RESULT)


def _is_norm(module: nn.Module) -> bool:
    """By name: every library has norms of its own, most without a common base."""
    return any("Norm" in kind.__name__ for kind in type(module).__mro__) and not _has_weights_of_others(module)


def _has_weights_of_others(module: nn.Module) -> bool:
    """Whether a module, whatever its name, is more than a norm: convolutions with their norm, for example."""
    return any(weight.numel() > len(weight) for weight in module.parameters() if weight.dim())


def _is_activation(module: nn.Module) -> bool:
    kind = type(module)
    return kind.__module__.startswith(ACTIVATIONS) and not any(word in kind.__name__ for word in NOT_POINTWISE)
