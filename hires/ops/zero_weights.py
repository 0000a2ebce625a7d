"""Modules whose weights do not matter, built in a fraction of the time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_RANDOM = {
    Tensor.normal_,
    Tensor.uniform_,
    # those of nn.init that ask a mode before they draw, which then sees nothing of what they do
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.kaiming_normal_,
    nn.init.kaiming_uniform_,
}
_NEEDLESS = {Tensor.erfinv_}  # of zeros: part of truncated normal distributions
_NEW: set[Any] = {torch.rand, torch.randn}


class ZeroWeights(TorchFunctionMode):
    """While it is active, initialisation with random numbers fills in zeros, and draws none."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            with torch.no_grad():
                return tensor.zero_()
        if func in _NEW:
            return torch.zeros(*args, **{name: value for name, value in kwargs.items() if name != "generator"})
        return args[0] if func in _NEEDLESS else func(*args, **kwargs)
