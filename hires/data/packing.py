"""Samples as a few large tensors, as they travel from a worker: each tensor has a price, whatever its size."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import default_collate

from hires.interfaces import Sample, Target


class Packed(NamedTuple):
    """Samples of one size and type."""

    images: Tensor  # (B, C, H, W)
    targets: dict[str, Tensor]  # of all samples, flat, one behind the other
    shapes: dict[str, list[tuple[int, ...]]]  # of each sample's
    names: list[str]
    skipped: list[tuple[str, ...]]


def packed(samples: list[Sample]) -> Packed:
    """The samples, whose targets have the same keys, copied; in a worker into memory that processes share."""
    keys = samples[0].target.keys()
    targets = {key: [sample.target[key] for sample in samples] for key in keys}
    return Packed(
        # of all that torch offers, this alone writes into shared memory at once
        default_collate([sample.image for sample in samples]),
        {key: _flat(values) for key, values in targets.items()},
        {key: [tuple(value.shape) for value in values] for key, values in targets.items()},
        [sample.name for sample in samples],
        [sample.skipped for sample in samples],
    )


def unpacked(batch: Packed) -> list[Sample]:
    """The samples, as views of the tensors."""
    parts = {key: _parts(batch.targets[key], shapes) for key, shapes in batch.shapes.items()}
    targets: list[Target] = [{key: next(part) for key, part in parts.items()} for _ in batch.names]
    return [Sample(*fields) for fields in zip(batch.images, targets, batch.names, batch.skipped, strict=True)]


def _flat(values: list[Tensor]) -> Tensor:
    if len({value.shape for value in values}) == 1:
        return default_collate(values).flatten()
    return default_collate([torch.cat([value.flatten() for value in values])])[0]


def _parts(flat: Tensor, shapes: list[tuple[int, ...]]) -> Iterator[Tensor]:
    sizes = [torch.Size(shape).numel() for shape in shapes]
    for part, shape in zip(flat.split(sizes), shapes, strict=True):
        yield part.view(shape)
