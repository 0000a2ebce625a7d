"""Feeds optimizer batches: which samples belong to a step, and worker processes that make them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import cv2
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from hires.interfaces import ConfigError, DataError, HiresError, Sample
from hires.ops.process_memory import lift_limit

Key = tuple[int, int]
"""(epoch, index) of a sample."""


class StepSampler(Sampler[list[Key]]):
    """For each optimizer step from `start_step` to below `max_steps`: the keys of this rank's share.

    An epoch has ceil(windows_in_epoch / batch_size) steps, all of them full: the last one runs past the
    epoch's count. The ranks' shares of a step are disjoint and together do not depend on `world_size`.
    """

    def __init__(
        self,
        windows_in_epoch: int,
        batch_size: int,
        start_step: int,
        max_steps: int,
        rank: int = 0,
        world_size: int = 1,
    ):
        if batch_size < world_size:
            raise ConfigError(
                f"batch_size: got {batch_size}, allowed: at least one sample per device ({world_size})"
            )
        self.steps_per_epoch = -(-windows_in_epoch // batch_size)
        self.batch_size, self.steps = batch_size, range(start_step, max_steps)
        self.rank, self.world_size = rank, world_size

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[list[Key]]:
        for step in self.steps:
            epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
            first = step_in_epoch * self.batch_size
            yield [(epoch, first + place) for place in range(self.rank, self.batch_size, self.world_size)]


class StepLoader:
    """Yields the list of samples of each step. Raises DataError or ConfigError from workers as they were."""

    def __init__(self, loader: DataLoader[Any]):
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[Sample]]:
        for samples in self._loader:
            for sample in samples:
                if isinstance(sample, _Failure):
                    raise sample.kind(sample.message)
            yield samples


def make_loader(dataset: Dataset[Sample], sampler: StepSampler, workers: int, pin_memory: bool) -> StepLoader:
    """A loader of the sampler's steps; leaves the global random state alone.

    Workers start with an iteration and end with it, also when it ends early or by an error.
    """
    loader = DataLoader(
        _Guarded(dataset),
        batch_sampler=sampler,
        num_workers=workers,
        collate_fn=_as_they_are,
        pin_memory=pin_memory,
        worker_init_fn=_single_threaded,
        generator=torch.Generator(),
        # the sampler knows all steps of a run, so that one iteration is all there is: workers that outlive it
        # would only delay the exit
        persistent_workers=False,
        prefetch_factor=2 if workers else None,
    )
    return StepLoader(loader)


class _Failure(NamedTuple):
    """An error as a value: raised in a worker, it would arrive wrapped in a traceback."""

    kind: type[HiresError]
    message: str


class _Guarded(Dataset[Sample | _Failure]):
    def __init__(self, dataset: Dataset[Sample]):
        self.dataset = dataset

    def __getitem__(self, key: Key) -> Sample | _Failure:
        try:
            return self.dataset[key]
        except DataError as error:
            return _Failure(DataError, str(error))
        except ConfigError as error:
            return _Failure(ConfigError, str(error))


def _as_they_are(samples: list[Any]) -> list[Any]:
    return samples


def _single_threaded(worker: int) -> None:
    lift_limit()  # a memory budget is the trainer's
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
