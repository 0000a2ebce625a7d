"""Activation checkpointing from outside: gives the units of a model their policies by exchanging `forward`.

No key of a state dict changes, copies of a module use their own weights, and hooks of the units run once.
"""

import logging
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn

from hires.interfaces import ConfigError
from hires.memory.forwards import APPLIED, Applied
from hires.memory.kinds import KINDS
from hires.memory.offload import Offload, make_offload
from hires.memory.policies import KEY, Policies, Policy, policies_of, segments_of
from hires.memory.units import Unit

log = logging.getLogger(__name__)


def give_policies(
    root: nn.Module, units: Sequence[Unit], said: Policies, *, device: torch.device, offload_dir: str | None
) -> dict[str, str]:
    """As `apply_policies`, with an offload that suits the device; returns the policies as they are written."""
    wanted = any(policy.kind == "offload" for policy in policies_of(said, units).values())
    offload = make_offload(device, offload_dir) if wanted else None
    policies = apply_policies(root, units, said, offload=offload)
    if wanted and offload is None:
        log.info("activation checkpointing: `offload` does nothing on a CPU unless memory.offload_dir is set")
    return {name: str(policy) for name, policy in policies.items()}


def apply_policies(
    root: nn.Module, units: Sequence[Unit], said: Policies, *, offload: Offload | None = None
) -> dict[str, Policy]:
    """Gives every unit of the root its policy and returns them by name; what was applied before is taken off.

    `said` is one policy for all, or policies by stage, unit or range. Raises ConfigError for what the model does
    not have.
    """
    policies = policies_of(said, units)
    segments = segments_of(policies, units)
    remove_policies(root)
    for unit in units:
        applied = Applied(unit.name, segments[unit.name], offload)
        for module in map(root.get_submodule, unit.modules):
            _apply(policies[unit.name], module, applied)
    return policies


def _apply(policy: Policy, module: nn.Module, applied: Applied) -> None:
    if policy.kind == "offload" and applied.offload is None:
        return
    for part, forward in KINDS[policy.kind](module):
        _exchange(part, forward, applied)


def remove_policies(root: nn.Module) -> None:
    """Every module below the root keeps again what it did without policies."""
    for module in root.modules():
        if module.__dict__.pop(APPLIED, None) is not None:
            del module.forward


def _exchange(module: nn.Module, forward: Callable[..., Any], applied: Applied) -> None:
    """`forward(module, ...)` becomes the module's own; a bound method, which a deep copy binds to the copy."""
    if "forward" in module.__dict__ and APPLIED not in module.__dict__:
        raise ConfigError(
            f"{KEY}.{applied.name}: {type(module).__name__} has been given another forward; set its policy to none"
        )
    module.__dict__[APPLIED] = applied
    module.forward = MethodType(forward, module)
