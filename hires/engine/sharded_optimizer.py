"""Optimizers of split parameters: their state, and whether they do the same as with whole ones."""

import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from hires.engine.sharded import part_like, part_of
from hires.engine.sharded_share import told_apart
from hires.interfaces import ConfigError, LostProcess
from hires.ops.nested import map_leaves
from hires.ops.random_state import WholeRandomState

_LONGEST = 100  # characters of a reason
_CLOSE = 1e-4  # of the size of a parameter


def shard_optimizer(optimizer: torch.optim.Optimizer, replaced: Mapping[Any, Any]) -> None:
    """Gives an optimizer the split parameters in the place of the whole ones, and splits its state likewise."""
    for group in optimizer.param_groups:
        group["params"][:] = [replaced[parameter] for parameter in group["params"]]
    for parameter in list(optimizer.state):
        state, like = optimizer.state.pop(parameter), replaced[parameter]
        optimizer.state[like] = map_leaves(partial(_split, like=like), state, Tensor)


def _split(value: Tensor, like: DTensor) -> Tensor:
    """A tensor of the state of a parameter: counters stay, what has another shape all processes keep."""
    if not value.dim():
        return value
    return part_like(value, like) if value.shape == like.shape else part_of(value, like.device_mesh, [Replicate()])


def check_optimizer(name: str, build: Callable[[nn.Module], torch.optim.Optimizer], device: torch.device) -> None:
    """Tries an optimizer on a few split numbers, and continues it from its whole state; all processes do so.

    Raises ConfigError where that fails, or gives something else than with whole parameters, and LostProcess when
    another process has ended.
    """
    before = WholeRandomState()
    try:
        with told_apart():
            expected, found = (_tried(build, device, split) for split in (False, True))
        pairs = zip(expected, found, strict=True)
        far = max(float((one - other).norm() / one.norm()) for one, other in pairs)
        trouble = "" if far < _CLOSE else f"parameters differ by {far:.1g}"
    except LostProcess:
        raise
    except Exception as error:  # whatever an optimizer raises that was not made for such parameters
        line = next(iter(str(error).splitlines()), type(error).__name__)
        trouble = textwrap.shorten(line, _LONGEST, placeholder=" ...")
    before.set()
    if trouble:
        raise ConfigError(
            f"optimizer.name: got {name}, which does not work on split parameters ({trouble}); with "
            "trainer.strategy=fsdp2 use adamw, sgd, lion or lamb"
        )


def _tried(build: Callable[[nn.Module], torch.optim.Optimizer], device: torch.device, split: bool) -> list[Tensor]:
    """The parameters of a small network after two steps, the second of which goes on from a saved state."""
    network = nn.Sequential(nn.Conv2d(3, 5, 3), nn.GroupNorm(1, 5), nn.Linear(6, 7)).to(device)
    values, state = [_wave(p) for p in network.parameters()], None
    for number in range(2):
        for parameter, value in zip(network.parameters(), values, strict=True):
            parameter.data = value
        optimizer = build(network)
        if state is not None:
            optimizer.load_state_dict(state)
        parts: dict[Any, Any] = {p: _part(p) if split else p for p in network.parameters()}
        if split:
            shard_optimizer(optimizer, parts)
        for whole, part in parts.items():
            gradient = _wave(whole, 1.0 + number)
            part.grad = part_like(gradient, part) if split else gradient
        torch.manual_seed(number)
        optimizer.step()
        state = map_leaves(_whole, optimizer.state_dict(), DTensor)
        values = [_whole(part).detach().clone() for part in parts.values()]
    return values


def _part(parameter: Tensor) -> nn.Parameter:
    mesh = init_device_mesh(parameter.device.type, (dist.get_world_size(),))
    return nn.Parameter(part_of(parameter, mesh, [Shard(0)]))


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _wave(like: Tensor, phase: float = 0.0) -> Tensor:
    """Numbers of a shape that are neither alike nor random."""
    return torch.arange(like.numel(), device=like.device).add(phase).sin().view(like.shape)
