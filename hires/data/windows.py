"""Training samples: windows at native resolution, or whole images resized; functions of their index."""

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch.utils.data import Dataset

from hires.data.augment import Augment
from hires.data.mosaic import assembled, quadrants
from hires.data.placement import image_areas
from hires.data.settings import DataSettings, TrainingSource, WindowSettings
from hires.data.targets import Arrays
from hires.interfaces import DataError, ImageSource, Sample
from hires.ops.padding import fitted_size, pad_to, resize_image
from hires.ops.windows import Size

_PLACE, _AUGMENT, _ORDER, _SCALE, _MOSAIC = range(5)  # independent random streams of one sample
_TRIES = 100  # samples in place of a broken one


def windows_in_epoch(source: ImageSource, image_size: Size, settings: DataSettings) -> int:
    """Samples in one epoch: as many windows as cover the area of all images, or every image once."""
    if settings.windows_per_epoch is not None:
        return settings.windows_per_epoch
    if settings.fit == "resize":
        return len(source)
    return math.ceil(int(image_areas(source).sum()) / math.prod(image_size))


class TrainingDataset(Dataset[Sample], ABC):
    """Samples by (epoch, index): image (C, H, W) of the type of its file, of exactly `image_size` and its target.

    A sample depends on (seed, epoch, index) and nothing else, whichever process makes it. An index may
    lie beyond the epoch's count. `padding` fills what an image lacks; None mirrors the image. Of a source that
    skips broken files another sample, which depends on them too, stands in for one with such files, and says so.
    """

    def __init__(
        self,
        source: TrainingSource,
        image_size: Size,
        settings: WindowSettings,
        augment: Augment,
        seed: int,
        padding: int | None = None,
    ):
        self.source, self.image_size, self.augment, self.seed = source, image_size, augment, seed
        self.padding, self.targets = padding, source.targets(settings)
        self.skip = bool(getattr(source, "skips", False))

    def __len__(self) -> int:
        """The images that samples are of."""
        return len(self.source)

    @abstractmethod
    def view(self, epoch: int, *place: int) -> tuple[str, np.ndarray, Arrays]:
        """Name, image (H, W, C) and target, neither larger than `image_size`.

        `place`: the sample's index, and for one that stands in for it a number from 1.
        """

    def __getitem__(self, key: tuple[int, int]) -> Sample:
        if not self.skip:
            return self._sample(*key)
        broken: list[str] = []
        for again in range(_TRIES):
            try:
                return self._sample(*key, *([again] if again else []))._replace(skipped=tuple(broken))
            except DataError as error:
                broken.append(str(error))
        raise DataError(f"{broken[-1]}; data.on_error=skip found {_TRIES} broken samples in a row")

    def _sample(self, epoch: int, *place: int) -> Sample:
        name, image, target = self.view(epoch, *place)
        # padded before augmentation, which then always sees the full size
        image, target = self.padded(image, target, self.image_size)
        seed = self.words(_AUGMENT, epoch, *place)
        image, target = self.targets.augmented(image, target, self.augment, seed)
        # what comes from a memory map may be read-only, which tensors cannot be
        image = np.require(image.transpose(2, 0, 1), requirements=["C", "W"])
        return Sample(torch.from_numpy(image), self.targets.tensors(target, self.image_size), name)

    def padded(self, image: np.ndarray, target: Arrays, size: Size) -> tuple[np.ndarray, Arrays]:
        return pad_to(image, *size, self.padding), self.targets.padded(target, size)

    def resized(self, image: np.ndarray, target: Arrays, size: Size) -> tuple[np.ndarray, Arrays]:
        """What a source read, at `size` pixels."""
        height, width = image.shape[:2]
        return resize_image(image, size), self.targets.shown(target, (height, width), size)

    def words(self, stream: int, epoch: int, *place: int) -> list[int]:
        """What seeds one random stream of one sample."""
        return [self.seed, stream, epoch, *place]


class WindowDataset(TrainingDataset):
    """Windows at native resolution, placed as `settings` say.

    With `scale` (low, high) a window is `image_size` / s native pixels, shown at `image_size`, s log-uniform
    between the two. A share `mosaic` of the samples is made of four native windows instead.
    """

    def __init__(
        self,
        source: TrainingSource,
        image_size: Size,
        settings: WindowSettings,
        augment: Augment,
        seed: int,
        scale: tuple[float, float] | None = None,
        padding: int | None = None,
        mosaic: float = 0.0,
    ):
        super().__init__(source, image_size, settings, augment, seed, padding)
        self.scale, self.mosaic, self.place = scale, mosaic, self.targets.placement()

    def view(self, epoch: int, *place: int) -> tuple[str, np.ndarray, Arrays]:
        # a stream of its own, so that the other samples are what they are without mosaics
        rng = np.random.default_rng(self.words(_MOSAIC, epoch, *place))
        if rng.random() < self.mosaic:
            return self._mosaic(rng)
        native = self._native_size(epoch, *place)
        return self.window(native, np.random.default_rng(self.words(_PLACE, epoch, *place)), self.image_size)

    def window(self, native: Size, rng: np.random.Generator, shown: Size) -> tuple[str, np.ndarray, Arrays]:
        """Name, image and target of a random window of `native` pixels, scaled as the whole of it is to `shown`.

        They are smaller than that where the image is.
        """
        image_index, window = self.place(native, rng)
        image, target = self.source.read(image_index, window)
        height, width = (
            max(1, round(side * limit / whole))
            for side, limit, whole in zip(image.shape[:2], shown, native, strict=True)
        )
        return self.source.name(image_index), *self.resized(image, target, (height, width))

    def _mosaic(self, rng: np.random.Generator) -> tuple[str, np.ndarray, Arrays]:
        names, images, truths = [], [], []
        places = quadrants(self.image_size, rng)
        for _, _, height, width in places:
            name, image, target = self.window((height, width), rng, (height, width))
            image, target = self.padded(image, target, (height, width))
            names.append(name)
            images.append(image)
            truths.append(target)
        return ", ".join(names), *assembled(places, images, truths, self.targets, self.image_size)

    def _native_size(self, epoch: int, *place: int) -> Size:
        """(height, width) of a window before it is shown at `image_size`; the image may be smaller."""
        if self.scale is None:
            return self.image_size
        # a stream of its own, so that the place is drawn as it is without scale
        rng = np.random.default_rng(self.words(_SCALE, epoch, *place))
        scale = math.exp(rng.uniform(*np.log(self.scale)))
        height, width = (max(1, round(side / scale)) for side in self.image_size)
        return height, width


class ResizeDataset(TrainingDataset):
    """Whole images, resized to fit; every epoch shows each image once, in another order."""

    def view(self, epoch: int, *place: int) -> tuple[str, np.ndarray, Arrays]:
        image_index = self._drawn(epoch, *place)
        image, target = self.source.read(image_index)
        image = np.asarray(image)  # of a large one only slices
        height, width = image.shape[:2]
        size = fitted_size((height, width), self.image_size)
        return self.source.name(image_index), *self.resized(image, target, size)

    def _drawn(self, epoch: int, index: int, *again: int) -> int:
        """The image of a sample; any image for one that stands in for it."""
        if again:
            return int(np.random.default_rng(self.words(_ORDER, epoch, index, *again)).integers(len(self.source)))
        turn, position = divmod(index, len(self.source))
        order = np.random.default_rng(self.words(_ORDER, epoch, turn)).permutation(len(self.source))
        return int(order[position])
