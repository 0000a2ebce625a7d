"""The state of generators of random numbers, to be kept and set again."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

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
