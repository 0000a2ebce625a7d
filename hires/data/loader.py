"""Feeds optimizer batches: which samples belong to a step, and worker processes that make them."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import cv2
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from hires.data.packing import Packed, packed, unpacked
from hires.interfaces import ConfigError, DataError, HiresError, Sample
from hires.ops.parent import as_parent, work_for_parent
from hires.ops.process_memory import lift_limit

log = logging.getLogger(__name__)

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
    """Yields the list of samples of each step. Raises DataError or ConfigError from workers as they were.

    Warns of every broken file whose place others take, once; raises DataError when those are more than half of
    `images`.
    """

    def __init__(self, loader: DataLoader[Any], images: int = 0):
        self._loader, self._images = loader, images
        self._skipped: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[Sample]]:
        for batch in self._loader:
            samples = unpacked(batch) if isinstance(batch, Packed) else batch
            for sample in samples:
                if isinstance(sample, _Failure):
                    raise sample.kind(sample.message)
                if sample.skipped:
                    self._note(sample.skipped)
            yield samples
        if self._skipped:
            count, times = len(self._skipped), self._skipped.total()
            log.warning("data.on_error=skip: of %d broken file(s), %d sample(s) were replaced", count, times)

    def _note(self, skipped: Sequence[str]) -> None:
        for message in skipped:
            file = message.partition(": ")[0]  # what is wrong with it may depend on the window
            self._skipped[file] += 1
            if self._skipped[file] == 1:
                log.warning("%s; skipped, as broken file number %d", message, len(self._skipped))
        if len(self._skipped) > self._images / 2:
            raise DataError(
                f"data.on_error: {len(self._skipped)} of {self._images} images are broken, more than half; "
                f"the last: {skipped[-1]}"
            )


def make_loader(dataset: Any, sampler: StepSampler, workers: int, pin_memory: bool) -> StepLoader:
    """A loader of the sampler's steps; leaves the global random state alone.

    Workers start with an iteration and end with it, also when it ends early or by an error.
    """
    loader = DataLoader(
        _Guarded(dataset),
        batch_sampler=sampler,
        num_workers=workers,
        collate_fn=_packed_if_whole if workers else _as_they_are,
        pin_memory=pin_memory,
        worker_init_fn=partial(_begin, as_parent()) if workers else None,
        generator=torch.Generator(),
        # the sampler knows all steps of a run, so that one iteration is all there is: workers that outlive it
        # would only delay the exit
        persistent_workers=False,
        prefetch_factor=2 if workers else None,
    )
    return StepLoader(loader, len(dataset) if hasattr(dataset, "__len__") else 0)


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


def _packed_if_whole(samples: list[Any]) -> Any:
    return samples if any(isinstance(sample, _Failure) for sample in samples) else packed(samples)


def _as_they_are(samples: list[Any]) -> list[Any]:
    return samples


def _begin(parent: int | None, worker: int) -> None:
    work_for_parent(parent)
    lift_limit()  # a memory budget is the trainer's
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
