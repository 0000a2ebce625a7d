"""Segmentation samples are what they always were: to the bit, from release to release."""

import zlib

import albumentations as A
import pytest

from hires.data.augment import Augment
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset


def checksum(arrays):
    total = 0
    for array in arrays:
        total = zlib.crc32(array.numpy().tobytes(), total)
    return total


@pytest.mark.parametrize(
    ("size", "focus", "scale", "transforms", "images", "masks"),
    [
        ((16, 16), 0.0, None, [], 4030125979, 1507002716),
        ((16, 24), 0.5, None, [A.D4()], 3735320686, 4217030929),
        ((48, 48), 1.0, None, [A.D4(), A.RandomRotate90()], 658995581, 3946725383),  # larger than some images
        ((16, 16), 0.5, (0.5, 2.0), [A.D4(), A.RandomRotate90()], None, 788441866),
    ],
    ids=["plain", "focus", "padded", "scale"],
)
def test_windows_are_unchanged(small_set, settings, size, focus, scale, transforms, images, masks):
    source = settings().source("train")
    dataset = WindowDataset(source, size, WindowSettings(focus=focus), Augment(transforms), 7, scale)
    samples = [dataset[(epoch, index)] for epoch in range(2) for index in range(20)]
    assert checksum(sample.target["mask"] for sample in samples) == masks
    if images is not None:  # resizing may round differently on another machine
        assert checksum(sample.image for sample in samples) == images
