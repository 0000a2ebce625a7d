"""Training samples: windows at native resolution, or whole images resized; functions of their index."""

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch.utils.data import Dataset

from hires.data.augment import Augment
from hires.data.focus import ClassIndex
from hires.data.settings import DataSettings, SegmentationSource, WindowSettings
from hires.interfaces import IGNORE, ImageSource, Sample, Window
from hires.ops.padding import pad_to, resize_image, resize_mask, resize_to_fit
from hires.ops.windows import random_window, window_around

Size = tuple[int, int]
_PLACE, _AUGMENT, _ORDER, _SCALE = range(4)  # independent random streams of one sample


def windows_in_epoch(source: ImageSource, image_size: Size, settings: DataSettings) -> int:
    """Samples in one epoch: as many windows as cover the area of all images, or every image once."""
    if settings.windows_per_epoch is not None:
        return settings.windows_per_epoch
    if settings.fit == "resize":
        return len(source)
    return math.ceil(int(image_areas(source).sum()) / math.prod(image_size))


def image_areas(source: ImageSource) -> np.ndarray:
    """Pixels of every image, (images,) int64."""
    return np.array([math.prod(source.size(index)) for index in range(len(source))], np.int64)


class TrainingDataset(Dataset[Sample], ABC):
    """Samples by (epoch, index): uint8 image (C, H, W) and mask (H, W) of exactly `image_size`.

    A sample depends on (seed, epoch, index) and nothing else, whichever process makes it. An index may
    lie beyond the epoch's count.
    """

    def __init__(self, source: SegmentationSource, image_size: Size, augment: Augment, seed: int):
        self.source, self.image_size, self.augment, self.seed = source, image_size, augment, seed

    @abstractmethod
    def view(self, epoch: int, index: int) -> tuple[str, np.ndarray, np.ndarray]:
        """Name, image (H, W, C) and mask (H, W), neither larger than `image_size`."""

    def __getitem__(self, key: tuple[int, int]) -> Sample:
        epoch, index = key
        name, image, mask = self.view(epoch, index)
        # padded before augmentation, which then always sees the full size
        arrays = {"image": pad_to(image, *self.image_size), "mask": pad_to(mask, *self.image_size, IGNORE)}
        arrays = self.augment(arrays, self.words(_AUGMENT, epoch, index))
        # what comes from a memory map may be read-only, which tensors cannot be
        image = np.require(arrays["image"].transpose(2, 0, 1), requirements=["C", "W"])
        mask = np.require(arrays["mask"], requirements=["C", "W"])
        return Sample(torch.from_numpy(image), {"mask": torch.from_numpy(mask)}, name)

    def words(self, stream: int, epoch: int, index: int) -> list[int]:
        """What seeds one random stream of one sample."""
        return [self.seed, stream, epoch, index]


class WindowDataset(TrainingDataset):
    """Windows at native resolution; a share `settings.focus` of them holds a pixel of a focus class.

    The other windows fall on an image in proportion to its area, uniformly within it. With `scale` (low, high)
    a window is `image_size` / s native pixels, shown at `image_size`, s log-uniform between the two.
    """

    def __init__(
        self,
        source: SegmentationSource,
        image_size: Size,
        settings: WindowSettings,
        augment: Augment,
        seed: int,
        scale: tuple[float, float] | None = None,
    ):
        super().__init__(source, image_size, augment, seed)
        self.scale = scale
        self._area_ends = np.cumsum(image_areas(source))
        self._classes = ClassIndex(source, settings.focus_classes) if settings.focus > 0 else None
        self._focus = settings.focus if self._classes else 0.0

    def view(self, epoch: int, index: int) -> tuple[str, np.ndarray, np.ndarray]:
        native = self._native_size(epoch, index)
        image_index, window = self._place(native, np.random.default_rng(self.words(_PLACE, epoch, index)))
        image, target = self.source.read(image_index, window)
        image, mask = self._shown(image, target["mask"], native)
        return self.source.name(image_index), image, mask

    def _native_size(self, epoch: int, index: int) -> Size:
        """(height, width) of a window before it is shown at `image_size`; the image may be smaller."""
        if self.scale is None:
            return self.image_size
        # a stream of its own, so that the place is drawn as it is without scale
        rng = np.random.default_rng(self.words(_SCALE, epoch, index))
        scale = math.exp(rng.uniform(*np.log(self.scale)))
        height, width = (max(1, round(side / scale)) for side in self.image_size)
        return height, width

    def _place(self, size: Size, rng: np.random.Generator) -> tuple[int, Window]:
        if self._classes is not None and rng.random() < self._focus:
            image_index, y, x = self._classes.pick(rng)
            return image_index, window_around((y, x), self.source.size(image_index), size, rng)
        pixel = rng.integers(self._area_ends[-1])
        image_index = int(np.searchsorted(self._area_ends, pixel, side="right"))
        return image_index, random_window(self.source.size(image_index), size, rng)

    def _shown(self, image: np.ndarray, mask: np.ndarray, native: Size) -> tuple[np.ndarray, np.ndarray]:
        """What was read of a window of `native` pixels, scaled as the whole window is to `image_size`."""
        if native == self.image_size:
            return image, mask
        height, width = (
            max(1, round(side * shown / whole))
            for side, shown, whole in zip(mask.shape, self.image_size, native, strict=True)
        )
        return resize_image(image, (height, width)), resize_mask(mask, (height, width))


class ResizeDataset(TrainingDataset):
    """Whole images, resized to fit; every epoch shows each image once, in another order."""

    def view(self, epoch: int, index: int) -> tuple[str, np.ndarray, np.ndarray]:
        turn, position = divmod(index, len(self.source))
        order = np.random.default_rng(self.words(_ORDER, epoch, turn)).permutation(len(self.source))
        image_index = int(order[position])
        image, target = self.source.read(image_index)
        image, size = resize_to_fit(image, self.image_size)
        return self.source.name(image_index), image, resize_mask(target["mask"], size)
