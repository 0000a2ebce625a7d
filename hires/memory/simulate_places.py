"""Where in a simulated step each operation is: in which unit, and in its forward, its backward or the update.

Uses private API of PyTorch: the numbers of autograd's nodes; backward is exchanged for one in Python.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partialmethod
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from hires.memory.meter import Recorder
from hires.memory.simulate_backward import MATERIALIZE, SavedTensors, Walk
from hires.memory.simulate_values import SimulationError
from hires.memory.timeline import GRADIENTS, Place
from hires.memory.units import Unit
from hires.ops.nested import leaves


class Following:
    """Tells a recorder where the step is, and runs backward."""

    def __init__(self, module: nn.Module, units: Sequence[Unit], recorder: Recorder):
        self._module, self._units, self._recorder = module, units, recorder
        self._ranges: list[tuple[int, int, str]] = []  # of the numbers of nodes that units make, as they end
        self._saved = SavedTensors()

    @contextmanager
    def within(self) -> Iterator[None]:
        handles: list[Any] = []
        try:
            handles.append(self._module.register_forward_pre_hook(self._to("forward")))
            handles.append(register_optimizer_step_pre_hook(self._to("optimizer")))
            handles.append(register_optimizer_step_post_hook(self._to("update")))
            for unit in self._units:
                for name in unit.modules:
                    handles += self._follow(self._module.get_submodule(name), unit.name)
            with (
                patch.object(torch.autograd, "backward", self._backward),
                patch.object(FunctionCtx, "set_materialize_grads", partialmethod(setattr, MATERIALIZE)),
                self._saved.counted(),
            ):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _to(self, phase: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self._recorder.place = Place(phase)

        return hook

    def _follow(self, module: nn.Module, unit: str) -> list[Any]:
        entered: list[tuple[Place, int]] = []

        def enter(_: Any, args: Any, kwargs: Any) -> None:
            entered.append((self._recorder.place, torch.autograd._get_sequence_nr()))
            self._recorder.place = Place(self._recorder.place.phase, unit)
            if self._recorder.place.phase == "forward":
                self._recorder.use(leaves((args, kwargs), Tensor), unit)

        def leave(*_: Any) -> None:
            self._recorder.place, first = entered.pop()
            self._ranges.append((first, torch.autograd._get_sequence_nr(), unit))

        return [module.register_forward_pre_hook(enter, with_kwargs=True), module.register_forward_hook(leave)]

    def _backward(
        self,
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        *_: Any,
        inputs: Any = None,
    ) -> None:
        """Stands in for torch.autograd.backward."""
        if create_graph or inputs is not None:
            raise SimulationError("a backward with create_graph or inputs cannot be simulated")
        roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        if any(root.grad_fn is None for root in roots):
            raise SimulationError("a backward from a tensor that nothing trainable made cannot be simulated")
        given = [grad_tensors] if isinstance(grad_tensors, Tensor) else list(grad_tensors or [None] * len(roots))
        left = (lambda *_: None) if retain_graph else self._saved.forget
        self._recorder.place = Place("backward")
        with torch.no_grad(), patch.object(torch._C, "_current_graph_task_id", lambda: id(roots)):
            gradients = [torch.ones_like(t) if g is None else g for t, g in zip(roots, given, strict=True)]
            Walk(roots, gradients, self._arrive, left, self._given).run()
        self._recorder.place = Place("update")

    def _arrive(self, node: Any) -> None:
        number = node._sequence_nr()
        unit = next((unit for first, end, unit in self._ranges if first <= number < end), None)
        self._recorder.place = Place("backward", unit)

    def _given(self, gradient: Tensor) -> None:
        self._recorder.give([gradient], GRADIENTS)
