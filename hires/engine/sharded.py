"""Sharded training (FSDP2): each process keeps a part of every parameter, and with it of all that belongs to it.

What learns is made and loaded whole, and then split in place. From then on parameters, gradients, the state of the
optimizer and averaged weights are DTensors of the parts that this process has.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from hires.engine.ema import Averaged, NoAverage
from hires.engine.ranks import talking
from hires.interfaces import ConfigError
from hires.ops.nested import map_leaves


class Reached:
    """Names of the parameters that a backward of this process has come to since they were `taken` last.

    Others get zeros for a gradient when processes add theirs up. To be made after `shard_task`.
    """

    def __init__(self, task: nn.Module):
        self._unseen = {name for name, parameter in task.named_parameters() if parameter.requires_grad}
        self._reached: set[str] = set()
        for name, module in task.named_modules():
            if is_split(module):
                module.register_forward_pre_hook(partial(self._watch, name))

    def take(self) -> set[str]:
        reached, self._reached = self._reached, set()
        return reached

    def _watch(self, prefix: str, module: nn.Module, _: Any) -> None:
        """While a module runs its parameters are whole; they are the same objects every time."""
        if not self._unseen:
            return
        for name, parameter in module.named_parameters(prefix=prefix):
            if name in self._unseen and not isinstance(parameter, DTensor):
                self._unseen.remove(name)
                parameter.register_post_accumulate_grad_hook(lambda _, name=name: self._reached.add(name))


def is_split(module: nn.Module) -> bool:
    """Whether the parameters of a module are split as one."""
    return isinstance(module, FSDPModule)


def shard_task(task: nn.Module, groups: Iterable[Sequence[str]], device: torch.device) -> None:
    """Splits the parameters of a task over all processes, in place.

    The modules of a group, by name, are made whole together while they run, forward and backward; what is in no
    group is whole from the beginning of a forward to the end of its backward. Gradients are summed, not averaged.
    Raises ConfigError for parameters that are single numbers.
    """
    for name, parameter in task.named_parameters():
        if not parameter.dim():
            raise ConfigError(
                f"trainer.strategy: got fsdp2, which cannot split {name}, a single number; choose another "
                "backbone, or ddp"
            )
        parameter.data = parameter.data.contiguous()  # in whatever memory format: FSDP takes no other
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    shared = _shared(task)
    for names in groups:
        modules = [task.get_submodule(name) for name in names]
        if not any(shared.intersection(module.parameters()) for module in modules):
            fully_shard(modules, mesh=mesh)
    fully_shard(task, mesh=mesh)
    for module in task.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other
            module.set_reduce_scatter_unused_params(True, recurse=False)


def _shared(task: nn.Module) -> set[Tensor]:
    """Parameters that several modules have."""
    owners = Counter(p for module in task.modules() for p in module.parameters(recurse=False))
    return {parameter for parameter, count in owners.items() if count > 1}


@torch.no_grad()
def part_of(whole: Tensor, mesh: Any, placements: Any) -> DTensor:
    """What this process keeps of a tensor; nothing is exchanged."""
    split = distribute_tensor(whole.detach().contiguous(), mesh, placements, src_data_rank=None)
    own = split.to_local().clone()  # so that nothing is kept of the rest
    return DTensor.from_local(own, mesh, placements, run_check=False, shape=split.shape, stride=split.stride())


def part_like(whole: Tensor, like: Any) -> DTensor:
    """What this process keeps of a tensor of the shape of a DTensor, split as that is."""
    return part_of(whole, like.device_mesh, like.placements)


class Gathered:
    """A part of a checkpoint that is split over the processes: all of them have to ask for its state.

    The main process gets it whole, on the CPU, as if it had never been split; the others get None for tensors.
    """

    collective = True

    def __init__(self, part: Any, main: bool):
        self._part, self._main = part, main

    def state_dict(self) -> Any:
        return map_leaves(self._whole, self._part.state_dict(), DTensor)

    def load_state_dict(self, state: Any) -> Any:
        """Before anything is split."""
        return self._part.load_state_dict(state)

    def _whole(self, split: DTensor) -> Tensor | None:
        with talking():
            whole = split.full_tensor()
        return whole.cpu() if self._main else None


class ShardedAverage:
    """Averaged weights, or the trained ones where there are none, of which each process keeps its part.

    `module` is a task of its own that is evaluated: outside of `whole` it has no parameters.
    """

    def __init__(self, average: Averaged, task: nn.Module):
        """To be made before the task is split: copies of a split one cannot be made."""
        self._average, self._task = average, task
        self.module = copy.deepcopy(task) if isinstance(average, NoAverage) else average.module
        self._strides = {name: p.stride() for name, p in self.module.named_parameters()}
        self._parts: dict[str, DTensor] = {}

    def shard(self) -> None:
        """Splits the weights as those of the task have been."""
        like = dict(self._task.named_parameters())
        for name, parameter in self.module.named_parameters():
            if not isinstance(self._average, NoAverage):
                self._parts[name] = part_like(parameter, like[name])
            parameter.data = parameter.new_empty(0)

    def decay(self, step: int) -> float | None:
        return self._average.decay(step)

    @torch.no_grad()
    def averaged(self) -> list[Tensor]:
        return [_local(part) for part in self._parts.values()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = self.decay(step)
        if decay is None:
            return
        theirs = self._task.state_dict()
        floats: list[tuple[Tensor, Tensor]] = []
        for name, own in self._state().items():
            one, other = _local(own), _local(theirs[name])
            if one.is_floating_point():
                floats.append((one, other))
            else:
                one.copy_(other)
        torch._foreach_lerp_([one for one, _ in floats], [other for _, other in floats], weight=1 - decay)

    def state_dict(self) -> dict[str, Any] | None:
        return None if isinstance(self._average, NoAverage) else self._state()

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Before anything is split."""
        self._average.load_state_dict(state)

    def _state(self) -> dict[str, Any]:
        return {**self.module.state_dict(), **self._parts}

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        """The task to evaluate, with all its weights for as long as this lasts; all processes must come here."""
        self._fill()
        try:
            yield self.module
        finally:
            for parameter in self.module.parameters():
                parameter.data = parameter.new_empty(0)

    @torch.no_grad()
    def _fill(self) -> None:
        parts: dict[str, Any] = self._parts or dict(self._task.named_parameters())
        for name, parameter in self.module.named_parameters():
            with talking():
                full = parts[name].full_tensor()
            parameter.data = full.new_empty_strided(full.shape, self._strides[name]).copy_(full)
        if not self._parts:
            for own, other in zip(self.module.buffers(), self._task.buffers(), strict=True):
                own.copy_(other)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
