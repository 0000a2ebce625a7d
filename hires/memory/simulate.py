"""A training step on tensors without memory: what it would occupy on a device, which need not be there.

Uses private API of PyTorch: fake tensors; what asks for a device is patched while a simulation is active.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from inspect import Parameter, signature
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from hires.memory.allocator import DEFAULTS, AllocatorSettings
from hires.memory.meter import Recorder, Workspace
from hires.memory.passages import Passages
from hires.memory.profile import MemoryProfile, profile_of
from hires.memory.simulate_places import Following
from hires.memory.simulate_surroundings import patches, uncollected
from hires.memory.simulate_types import as_kernels
from hires.memory.simulate_values import SimulationError, UnknownNumber, Values
from hires.memory.timeline import AVERAGE, GRADIENTS, PARAMETERS, STATE, Timeline
from hires.memory.units import Unit


def simulate(
    step: Callable[[Any, Any], Any],
    module: nn.Module,
    *,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    device: str = "cpu",
    units: Sequence[Unit] = (),
    workspace: Workspace | None = None,
) -> MemoryProfile:
    """What a training step occupies on a device, `cpu` or `cuda`, whether it is there or not.

    `step(module, optimizer)` is called with a copy of the module without memory, and does what a step does, in
    plain PyTorch: makes or receives inputs on the device, forward, `loss.backward()`, `optimizer.step()`. The
    module itself is not touched and may be on the meta device. `optimizer` makes an optimizer of a module's copy;
    its state is there before the step. In the place of several optimizers it makes an object that holds them: its
    `param_groups` and `state` are those of all together, its `step()` and `zero_grad()` call theirs, and `step`
    may use its parts. The units tell the activations apart; `workspace` says what kernels take, as CudaWorkspace()
    or what hires.memory.workspace measures; without it, nothing.
    Raises SimulationError for a step that depends on numbers in ways that cannot be followed, and for an optimizer
    whose step needs a closure, as that of LBFGS does.
    """
    simulation = Simulation(module, device, units)
    made = simulation.optimizer(optimizer) if optimizer else None
    return simulation.profile(lambda: step(simulation.module, made), optimizer=made, workspace=workspace)


_COMPARISONS = (torch.ops.aten.eq.Scalar, torch.ops.aten.ne.Scalar)


class _Mode(FakeTensorMode):
    """Copies of its tensors are tensors of the same mode; types are those of kernels."""

    def __init__(self) -> None:
        super().__init__()
        self._compared: dict[Any, tuple[int, ...]] = {}  # strides of results, by what decides about them

    @cached_property
    def avoid_device_init(self) -> bool:
        """Whether no device is there; torch asks for each operation anew, and looks for a driver each time."""
        return bool(FakeTensorMode.avoid_device_init.fget(self))  # type: ignore[attr-defined]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is compiled: no wrapper around each operation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _COMPARISONS:
            return self._comparison(func, args)
        return as_kernels(func, args, super().__torch_dispatch__(func, types, args, kwargs))

    def _comparison(self, func: Any, args: Any) -> Any:
        """Of a tensor with a number. Torch's own cache tells where in a storage the tensor begins: each chunk of a
        loss would be new to it, once a class."""
        tensor = args[0]
        key = func, tensor.shape, tensor.stride(), tensor.dtype, tensor.device
        if key not in self._compared:
            result: Any = super().__torch_dispatch__(func, (), args)
            self._compared[key] = result.stride()
            return result
        like = {"dtype": torch.bool, "device": tensor.device}
        given = list(tensor.shape), list(self._compared[key])
        return super().__torch_dispatch__(torch.ops.aten.empty_strided.default, (), given, like)

    def __deepcopy__(self, memo: Any) -> "_Mode":
        return self


class Simulation:
    """A copy of a module, `module`, on a device that need not be there; it has shapes, but no numbers.

    `units` are those by which memory is told apart.
    """

    def __init__(self, module: nn.Module, device: str = "cpu", units: Sequence[Unit] = ()):
        self.device, self.units = torch.device(device, 0) if device == "cuda" else torch.device(device), units
        self._mode, self._values = _Mode(), Values()
        self._recorder: Recorder | None = None
        self._passages = Passages()
        with self._mode:
            self.module = self._copied(module)

    def _copied(self, module: nn.Module) -> nn.Module:
        memo: dict[int, Any] = {}
        for tensor in (*module.parameters(), *module.buffers()):
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.device)
            parameter = isinstance(tensor, nn.Parameter)
            memo[id(tensor)] = nn.Parameter(fake, tensor.requires_grad) if parameter else fake
            if not (parameter or tensor.is_meta):
                self._values.know(fake, tensor)
        with unset_fake_temporarily():  # tensors that are neither are copied as they are
            return copy.deepcopy(module, memo)

    @contextmanager
    def active(self) -> Iterator[None]:
        """All tensors that are made within are fake; random numbers go on afterwards as if nothing had been."""
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings(action="ignore"))  # of what is unusual in a fake tensor
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.default_generator.manual_seed(0)
            for target, name, value in patches(self.device):
                stack.enter_context(patch.object(target, name, value))
            stack.enter_context(self._mode)
            stack.enter_context(self._values)
            yield

    def optimizer(self, make: Callable[[Any], torch.optim.Optimizer]) -> torch.optim.Optimizer:
        """An optimizer of the copy with its state; it works on all tensors at once where a real one would.

        Raises SimulationError if its step needs a closure.
        """
        with self.active():
            made = make(self.module)
            _check_step(made)
            for group in made.param_groups:
                if self.device.type == "cuda" and group.get("foreach", True) is None and not group.get("fused"):
                    group["foreach"] = True  # what torch chooses for plain tensors
            for parameter in self.module.parameters():
                if parameter.requires_grad:
                    parameter.grad = torch.empty_like(parameter)
            made.step()
            made.zero_grad()
        return made

    def profile(
        self,
        step: Callable[[], Any],
        *,
        optimizer: torch.optim.Optimizer | None = None,
        average: nn.Module | None = None,
        workspace: Workspace | None = None,
        allocator: AllocatorSettings = DEFAULTS,
    ) -> MemoryProfile:
        """What a step of the copy occupies, beside the state of its optimizer and its averaged copy."""
        state = optimizer.state.values() if optimizer else ()
        there = [parameter for parameter in self.module.parameters() if parameter.grad is not None]
        given = {
            PARAMETERS: [*self.module.parameters(), *self.module.buffers()],
            STATE: [t for values in state for t in values.values() if isinstance(t, Tensor)],
            AVERAGE: [*average.parameters(), *average.buffers()] if average else [],
        }
        timeline = self._record(step, given, workspace)
        if timeline is None:
            self._values.invent = True
            self._give_gradients(there)
            timeline = self._record(step, given, workspace)
        assert timeline is not None
        return profile_of(timeline, self.device.type, allocator)

    def repeated(self, name: str, run: Callable[[], Any]) -> None:
        """Runs a part of a step that depends on no policy and no image size; again, it is only noted."""
        assert self._recorder is not None, "only within a step"
        given = tuple(parameter.grad is not None for parameter in self.module.parameters())
        self._passages.run((name, given), run, self._recorder)

    def give(self, tensors: Iterable[Tensor], category: str) -> None:
        """To be called within the step that is simulated: says what tensors are for that it has just made."""
        if self._recorder is not None:
            self._recorder.give(tensors, category)

    def _give_gradients(self, there: list[nn.Parameter]) -> None:
        """To these parameters, and to no others."""
        with self.active():
            for parameter in self.module.parameters():
                parameter.grad = None
            for parameter in there:
                parameter.grad = torch.empty_like(parameter)

    def _record(
        self, step: Callable[[], Any], given: Mapping[str, Iterable[Tensor]], workspace: Workspace | None
    ) -> Timeline | None:
        """None: the step depends on numbers of the network, and none are made up yet."""
        recorder = self._recorder = Recorder(self.device, workspace)
        for category, tensors in given.items():
            recorder.give(tensors, category)
        # gradients that are there before the step; nothing here keeps them
        recorder.give((p.grad for p in self.module.parameters() if p.grad is not None), GRADIENTS)
        recorder.timeline.start = recorder.timeline.events
        with (
            uncollected(),
            self._values.afresh(),
            self.active(),
            recorder,
            Following(self.module, self.units, recorder).within(),
        ):
            try:
                step()
            except UnknownNumber:
                if self._values.invent:
                    raise
                return None
            except torch.AcceleratorError as error:
                reason = str(error).splitlines()[0]
                raise SimulationError(
                    f"the step does what needs a {self.device.type} device ({reason})"
                ) from error
            finally:
                self._recorder = None
        return recorder.timeline


def _check_step(optimizer: torch.optim.Optimizer) -> None:
    """Raises SimulationError unless a step can be made without arguments."""
    arguments = signature(optimizer.step).parameters.values()
    packed = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    needed = [a.name for a in arguments if a.default is Parameter.empty and a.kind not in packed]
    if needed:
        raise SimulationError(
            f"the step of {type(optimizer).__name__} needs a {needed[0]} that runs forward and backward again, as "
            "often as the numbers ask for; simulate the step with another optimizer, such as AdamW"
        )
