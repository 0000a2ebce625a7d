"""The images that an exported model is compared with: those of the run's data, or else random pixels."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from hires.data.settings import DataSettings
from hires.interfaces import ConfigError, DataError, ImageSource, Normalization, Window
from hires.ops.padding import pad_to

Size = tuple[int, int]


def source_of(data: DataSettings) -> ImageSource | None:
    """Validation images of a run, or its training images; None where its data is not there."""
    if not data.root_path().is_dir():  # nothing is generated or downloaded for the sake of an export
        return None
    try:
        return data.source("val" if data.has_split("val") else "train")
    except (DataError, ConfigError, OSError):
        return None


def images_of(source: ImageSource | None, normalization: Normalization) -> Callable[[int, Size], Tensor]:
    """Makes images (B, C, H, W) of a number and a size: windows of a source, each time of its next images."""
    rng, place = np.random.default_rng(0), 0

    def images(count: int, size: Size) -> Tensor:
        nonlocal place
        shown = []
        for _ in range(count):
            image = None if source is None else _window(source, place % len(source), size)
            place += 1
            shown.append(_random(normalization, size, rng) if image is None else image)
        return torch.stack([torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))) for image in shown])

    return images


def _window(source: ImageSource, index: int, size: Size) -> np.ndarray | None:
    """The middle of an image, (H, W, C), mirrored where it is smaller; None of a broken file."""
    try:
        height, width = source.size(index)
        shown = min(height, size[0]), min(width, size[1])
        window = Window((height - shown[0]) // 2, (width - shown[1]) // 2, *shown)
        return pad_to(source.read(index, window)[0], *size)
    except DataError:
        return None


def _random(normalization: Normalization, size: Size, rng: np.random.Generator) -> np.ndarray:
    """Random pixels (H, W, C), from those that become 0 to those that become 1."""
    low, high = np.array(normalization.low), np.array(normalization.high)
    pixels = low + rng.random((*size, len(low))) * (high - low)
    kind = np.dtype(normalization.dtype)
    return pixels.astype(kind) if kind.kind == "f" else pixels.round().astype(kind)
