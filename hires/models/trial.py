"""Tries the shapes of a network before its first step, without computing or allocating anything."""

import logging
from typing import NamedTuple

import torch
from torch import nn
from torch.func import functional_call

from hires.interfaces import ConfigError
from hires.ops.windows import Size

log = logging.getLogger(__name__)


class Trial(NamedTuple):
    """A forward pass that is going to happen, and the setting that its image size comes from."""

    key: str  # image_size, evaluation.window
    size: Size  # (height, width), pixels
    samples: int
    training: bool


def try_forward(network: nn.Module, trial: Trial, *, channels: int, name: str) -> None:
    """Runs the shapes of a trial through a network (B, C, H, W) -> ... on the meta device.

    Leaves the network, its buffers and the random state alone. Raises ConfigError with what to set.
    """
    state = {key: value.to("meta") for key, value in (*network.named_parameters(), *network.named_buffers())}
    modes = {module: module.training for module in network.modules()}
    images = torch.empty(trial.samples, channels, *trial.size, device="meta")
    network.train(trial.training)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            functional_call(network, state, (images,))
    except NotImplementedError as error:
        log.info("%s: shapes cannot be tried before the first step (%s)", name, str(error).splitlines()[0])
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        if "meta" not in str(error):  # tensors that are no parameters and no buffers stay where they are
            raise ConfigError(_explained(trial, name, error)) from error
        log.info("%s: shapes cannot be tried before the first step (%s)", name, str(error).splitlines()[0])
    finally:
        for module, mode in modes.items():
            module.training = mode


def _explained(trial: Trial, name: str, error: Exception) -> str:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    if "more than 1 value per channel" in reason:
        return (
            f"model.norm: BatchNorm has a single value per channel in a micro-batch of {trial.samples} at "
            f"{trial.key}={list(trial.size)}; set model.norm=group, or a larger micro_batch_size"
        )
    fix = "choose another image_size" if trial.training else f"leave {trial.key} at null: image_size"
    return f"{trial.key}: {name} cannot take images of {list(trial.size)} pixels ({reason}); {fix}"
