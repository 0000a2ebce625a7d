"""Device, precision and processes of a run, by Lightning Fabric."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision, Precision

from hires.interfaces import Batch, ConfigError


def make_fabric(accelerator: str, precision: str) -> Fabric:
    """A launched Fabric on one device. Raises ConfigError when the device is not there."""
    accelerator = accelerator_there(accelerator)
    plugin = precision_plugin(precision, accelerator)
    fabric = Fabric(accelerator=accelerator, devices=1, plugins=plugin)
    fabric.launch()
    return fabric


def accelerator_there(accelerator: str) -> str:
    """cpu or cuda. Raises ConfigError when it is not there."""
    if accelerator == "auto":
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    if accelerator == "cuda" and not torch.cuda.is_available():
        raise ConfigError("trainer.accelerator: cuda, but torch finds no CUDA device here; use cpu or auto")
    return accelerator


def precision_plugin(precision: str, device: str) -> Precision:
    """The plugin itself rather than its name: for the name, Fabric turns 16-mixed on a CPU into bf16."""
    if precision == "32-true":
        return Precision()
    return MixedPrecision(precision, device=device)  # type: ignore[arg-type]


def scale_of(fabric: Fabric) -> Callable[[], float] | None:
    """By what losses are multiplied before backward, in half precision; None where they are not."""
    scaler = getattr(fabric.strategy.precision, "scaler", None)
    return None if scaler is None else scaler.get_scale


def autocast_of(precision: str, device: str) -> Callable[[], AbstractContextManager[Any]]:
    """What a Fabric of this precision does around a forward, on a type of device that may not be there."""
    dtype = {"32-true": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}[precision]
    return nullcontext if dtype is None else partial(torch.autocast, device, dtype)


class Place:
    """Brings a batch to a device in a memory format."""

    def __init__(self, device: torch.device, channels_last: bool):
        self.device = device
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, batch: Batch) -> Batch:
        return batch.to(self.device, memory_format=self.memory_format)
