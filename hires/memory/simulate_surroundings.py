"""What is another way around a simulated step: questions to a device that is not there, and garbage collection.

Uses private API of PyTorch.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hires.memory.simulate_attention import attention

_GENERATOR = torch.Generator


def patches(device: torch.device) -> list[tuple[Any, str, Any]]:
    """What asks for a device that is not there."""
    if device.type != "cuda":
        return []
    return [
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        (torch.cuda, "is_bf16_supported", lambda *_, **__: True),
        (torch, "Generator", lambda *_, **__: _GENERATOR()),
        (torch.cuda, "get_rng_state", lambda *_, **__: torch.empty(0, dtype=torch.uint8)),
        (torch.cuda, "set_rng_state", lambda *_, **__: None),
        (torch.nn.functional, "scaled_dot_product_attention", attention),
    ]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without collecting garbage: there are a million objects to look through, and none of them is any."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
