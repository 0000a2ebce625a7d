"""Augmentation depends on its seed only, and never invents classes."""

import albumentations as A
import cv2
import numpy as np
import pytest
from image_files import noise

from hires.data.augment import Augment
from hires.interfaces import IGNORE, ConfigError


def arrays(channels=3, size=64):
    return {
        "image": noise(size, size, channels).reshape(size, size, channels),
        "mask": noise(size, size, 1) % 3 + 1,
    }


def test_no_transforms_change_nothing():
    given = arrays()
    result = Augment([])(given, [0])
    assert result["image"] is given["image"]
    assert result["mask"] is given["mask"]


def test_the_same_seed_gives_the_same_result_in_any_order():
    augment = Augment([A.RandomRotate90(), A.Rotate(p=0.7), A.ColorJitter(), A.GaussNoise(p=1)])
    forward = [augment(arrays(), [1, index])["image"] for index in range(8)]
    backward = [augment(arrays(), [1, index])["image"] for index in reversed(range(8))][::-1]
    np.testing.assert_array_equal(forward, backward)
    assert len({image.tobytes() for image in forward}) == 8


@pytest.mark.parametrize("channels", [1, 3])
def test_image_and_mask_move_together(channels):
    given = arrays(channels)
    given["mask"] = given["image"][..., 0].copy()
    result = Augment([A.HorizontalFlip(p=1), A.Transpose(p=1)])(given, [0])
    assert result["image"].shape == given["image"].shape
    np.testing.assert_array_equal(result["image"][..., 0], result["mask"])


@pytest.mark.parametrize(
    "transform",
    [
        A.Rotate((45, 45), p=1),
        A.Affine(translate_percent=0.3, p=1),
        A.Perspective((0.2, 0.2), p=1, fit_output=True),
        A.ElasticTransform(alpha=900, sigma=8, p=1),
        A.OpticalDistortion((0.9, 0.9), p=1),
        A.OneOf([A.Sequential([A.SafeRotate((45, 45), p=1)])], p=1),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_borders_are_ignored_not_class_0(transform):
    mask = Augment([transform])(arrays(), [3])["mask"]
    assert set(np.unique(mask)) == {1, 2, 3, IGNORE}


@pytest.mark.parametrize("transform", [A.RandomCrop(32, 32), A.Normalize()], ids=["crop", "normalize"])
def test_changed_sizes_and_types_are_refused(transform):
    with pytest.raises(ConfigError, match=f"given: {type(transform).__name__}"):
        Augment([transform])(arrays(), [0])


def test_masks_are_not_interpolated():
    with pytest.raises(ConfigError, match="Rotate has mask_interpolation=1"):
        Augment([A.OneOf([A.Rotate(mask_interpolation=cv2.INTER_LINEAR)])])
