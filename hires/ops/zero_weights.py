"""Modules whose weights do not matter, built in a fraction of the time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_RANDOM = {Tensor.normal_, Tensor.uniform_}
_NEEDLESS = {Tensor.erfinv_}  # of zeros: part of truncated normal distributions


class ZeroWeights(TorchFunctionMode):
    """While it is active, initialisation with random numbers fills in zeros, and draws none."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in _RANDOM:
            with torch.no_grad():
                return args[0].zero_()
        return args[0] if func in _NEEDLESS else func(*args, **(kwargs or {}))
