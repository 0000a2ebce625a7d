"""The trainings of a comparison, step by step in turns on the same samples."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from hires.compare_settings import named
from hires.engine.display import Display
from hires.engine.turns import Turns
from hires.interfaces import Sample
from hires.ops.differences import largest_difference
from hires.trainings import Material, Training, begin


def take_turns(
    materials: Mapping[str, Material], steps: int, evaluate: bool, display: Display
) -> dict[str, dict[str, Any]]:
    """Trains all for some steps; returns what was found of each, by the keys of compare.json."""
    contest = Contest(materials, steps)
    for step in range(steps):
        contest.step()
        display.stepped(step + 1)
    found = contest.found(display.evaluating if evaluate else None)
    del contest
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    return found


class Contest:
    """Trainings that take their steps in turns; the first one is the reference."""

    def __init__(self, materials: Mapping[str, Material], steps: int):
        self._keys = {name: material.key for name, material in materials.items()}
        different = {material.key: material for material in materials.values()}
        # one batch more than there are steps, for the gradients
        self._batches = {key: material.batches(steps + 1) for key, material in different.items()}
        self._samples = self._next()
        self._done = 0
        self.trainings: dict[str, Training] = {}
        self.turns: dict[str, Turns] = {}
        for name, material in materials.items():
            with named(name):
                training = begin(material, self._samples[material.key])
            self.trainings[name], self.turns[name] = training, Turns(training.update, training.wait)

    def _next(self) -> dict[str, list[Sample]]:
        return {key: next(batches) for key, batches in self._batches.items()}

    def step(self) -> None:
        """One optimizer step of each; all are the first one in turns."""
        names = list(self.turns)
        first = self._done % len(names)
        for name in names[first:] + names[:first]:
            self.turns[name].step(self._samples[self._keys[name]])
        self._done += 1
        self._samples = self._next()

    def found(self, evaluating: Callable[[int, int], None] | None) -> dict[str, dict[str, Any]]:
        """What can be said after the last step; moves the buffers on, by what the gradients need."""
        metrics = {
            name: training.metrics(evaluating) if evaluating else None for name, training in self.trainings.items()
        }
        differences = self._differences()
        reference, *_ = (turns.median() for turns in self.turns.values())
        return {
            name: {
                **self.turns[name].found(reference),
                "largest_difference": differences[name],
                "metrics": metrics[name],
                "plan": asdict(training.plan),
            }
            for name, training in self.trainings.items()
        }

    def _differences(self) -> dict[str, dict[str, Any]]:
        """The largest of each kind to the reference. Gradients are those of one more batch, without an update."""
        parameters, buffers = self._compared(Training.parameters), self._compared(Training.buffers)
        for name, turns in self.turns.items():
            turns.leave_gradients(self._samples[self._keys[name]])
        gradients = self._compared(Training.gradients)
        return {
            name: {"gradient": gradients[name], "parameter": parameters[name], "buffer": buffers[name]}
            for name in self.trainings
        }

    def _compared(self, tensors: Callable[[Training], dict[str, Tensor]]) -> dict[str, dict[str, Any] | None]:
        reference, *_ = (tensors(training) for training in self.trainings.values())
        found = {
            name: largest_difference(reference, tensors(training)) for name, training in self.trainings.items()
        }
        return {name: difference._asdict() if difference else None for name, difference in found.items()}
