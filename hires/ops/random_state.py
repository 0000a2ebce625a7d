"""The state of generators of random numbers, to be kept and set again."""

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


class RandomState:
    """The state of torch's generators as it is when this is made: of the CPU and of CUDA devices."""

    def __init__(self, devices: Iterable[torch.device] = ()) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = {device: torch.cuda.get_rng_state(device) for device in devices if device.type == "cuda"}

    def set(self) -> None:
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda.items():
            torch.cuda.set_rng_state(state, device)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """The same random numbers once more; afterwards those that would have come."""
        now = RandomState(self._cuda)
        try:
            self.set()
            yield
        finally:
            now.set()


class WholeRandomState(RandomState):
    """That of all generators that a training may use, Python's and numpy's included."""

    def __init__(self) -> None:
        count = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
        super().__init__(torch.device("cuda", index) for index in range(count))
        self._python, self._numpy = random.getstate(), np.random.get_state()

    def set(self) -> None:
        super().set()
        random.setstate(self._python)
        np.random.set_state(self._numpy)


def seed_everything(seed: int) -> None:
    """Seeds the global generators: they decide initial weights, dropout and drop path."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def global_state() -> dict[str, Any]:
    """The states of Python's, NumPy's and torch's global generators, as plain values and tensors."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_global_state(state: Mapping[str, Any]) -> None:
    """Sets what `global_state` gave."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
