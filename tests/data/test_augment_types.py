"""Augmentation of images that are no 8-bit colour images."""

from pathlib import Path

import albumentations as A
import numpy as np
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from hires.data.augment import Augment
from hires.interfaces import ConfigError, Normalization
from tests.many_bands import RANGES, pixels

CONFIGS = Path(__file__).parents[2] / "configs" / "augmentation"
SHIPPED = {
    str(transform["_target_"]).rpartition(".")[2]: transform
    for path in sorted(CONFIGS.glob("*.yaml"))
    for transform in OmegaConf.to_container(OmegaConf.load(path))["transforms"]
}
MOVING = ("D4", "Affine")
ODD = ("uint16", "int16", "float32")


def made(*transforms, dtype, bands, low=None, high=None):
    low, high = (RANGES[dtype][end] if given is None else given for end, given in ((0, low), (1, high)))
    normalization = Normalization("percentile", dtype, (float(low),) * bands, (float(high),) * bands)
    return Augment(transforms).of(normalization)


def shipped(name):
    return instantiate({**SHIPPED[name], "p": 1.0})


def run(augment, image, seed=0):
    return augment({"image": image, "mask": np.zeros(image.shape[:2], np.uint8)}, [seed])["image"]


def test_all_shipped_transforms_are_tried_here():
    assert set(SHIPPED) == {*MOVING, "RandomBrightnessContrast", "HueSaturationValue", "GaussNoise"}


@pytest.mark.parametrize("bands", [1, 3, 5, 13])
@pytest.mark.parametrize("dtype", ["uint8", *ODD])
@pytest.mark.parametrize("name", MOVING)
def test_what_moves_pixels_takes_every_type_and_any_bands(name, dtype, bands):
    image = pixels(dtype, bands, 48, 48)
    augment = made(shipped(name), dtype=dtype, bands=bands)
    found = run(augment, image)
    assert (found.dtype, found.shape) == (image.dtype, image.shape)
    assert any(not np.array_equal(run(augment, image, seed), image) for seed in range(3))
    for band in range(bands):  # each for itself, all alike
        alone = run(made(shipped(name), dtype=dtype, bands=1), image[..., band : band + 1])
        np.testing.assert_allclose(found[..., band : band + 1].astype(float), alone.astype(float), atol=1e-3)


@pytest.mark.parametrize("dtype", ODD)
def test_what_moves_pixels_keeps_values_outside_of_the_range(dtype):
    image = pixels(dtype, 5, 32, 32)
    image[3, 4], image[5, 6] = 2 * RANGES[dtype][1], RANGES[dtype][0] / 2
    augment = made(A.D4(p=1), dtype=dtype, bands=5)
    found = run(augment, image)
    np.testing.assert_array_equal(np.sort(found, axis=None), np.sort(image, axis=None))


@pytest.mark.parametrize("bands", [1, 3, 5])
@pytest.mark.parametrize("dtype", ODD)
@pytest.mark.parametrize("name", ["RandomBrightnessContrast", "GaussNoise"])
def test_what_changes_pixels_does_so_by_the_range_of_the_data(name, dtype, bands):
    """As much as 8-bit pixels of the same shares of their range."""
    low, high = RANGES[dtype]
    shares = np.random.default_rng(1).uniform(0.3, 0.7, (48, 48, bands))
    as_bytes = (shares * 255).round().astype(np.uint8)
    image = (as_bytes / 255 * (high - low) + low).astype(dtype)
    for seed in range(4):
        found = run(made(shipped(name), dtype=dtype, bands=bands), image, seed)
        assert found.dtype == image.dtype
        assert not np.array_equal(found, image)
        change = (found.astype(float) - image) / (high - low)
        assert 0.002 < np.abs(change).mean() < 0.25
    of_bytes = Augment([shipped(name)])
    spreads = [(run(of_bytes, as_bytes, seed).astype(float) - as_bytes).std() / 255 for seed in range(20)]
    augment = made(shipped(name), dtype=dtype, bands=bands)
    ours = [(run(augment, image, seed).astype(float) - image).std() / (high - low) for seed in range(20)]
    assert np.mean(ours) == pytest.approx(np.mean(spreads), rel=0.5)


@pytest.mark.parametrize("dtype", ODD)
def test_colour_changes_of_three_bands(dtype):
    image = pixels(dtype, 3, 48, 48)
    found = run(made(shipped("HueSaturationValue"), dtype=dtype, bands=3), image)
    assert found.dtype == image.dtype
    assert not np.array_equal(found, image)


@pytest.mark.parametrize("dtype", ["uint8", *ODD])
def test_a_transform_that_cannot_be_used_is_named_at_once(dtype):
    rare = instantiate({**SHIPPED["HueSaturationValue"], "p": 0.001})
    with pytest.raises(ConfigError, match=rf"HueSaturationValue cannot be used on {dtype} images with 5 channel"):
        made(A.D4(), rare, dtype=dtype, bands=5)


def test_transforms_within_others_and_chances(caplog):
    image = pixels("uint16", 3, 32, 32)
    tree = A.OneOf([A.RandomBrightnessContrast(p=1), A.GaussNoise(p=1)], p=0.5)
    augment = made(tree, dtype="uint16", bands=3)
    changed = [not np.array_equal(run(augment, image, seed), image) for seed in range(200)]
    assert np.mean(changed) == pytest.approx(0.5, abs=0.12)
    again = made(tree, dtype="uint16", bands=3)
    for seed in range(5):
        np.testing.assert_array_equal(run(again, image, seed), run(augment, image, seed))


def test_pixels_that_nothing_changes_keep_values_outside_of_the_range():
    image = pixels("int16", 3, 32, 32)
    augment = made(A.RandomBrightnessContrast(p=0.0), dtype="int16", bands=3, low=0, high=10)
    np.testing.assert_array_equal(run(augment, image), image)


def test_ordinary_images_keep_their_transforms():
    augment = Augment([A.D4(), A.HueSaturationValue()])
    for bands in (1, 3):
        assert augment.of(Normalization("dtype", "uint8", (0.0,) * bands, (255.0,) * bands)) is augment


@pytest.mark.parametrize("dtype", ODD)
def test_boxes_move_with_images_of_any_type(dtype):
    image = pixels(dtype, 5, 40, 40)
    image[:] = RANGES[dtype][0]
    image[4:10, 6:20] = RANGES[dtype][1]
    transforms = (A.D4(p=1), instantiate({**SHIPPED["RandomBrightnessContrast"], "p": 1.0}))
    augment = made(*transforms, dtype=dtype, bands=5)
    for seed in range(5):
        found = augment.with_boxes({"image": image, "boxes": np.array([[6.0, 4, 20, 10]])}, [seed])
        x1, y1, x2, y2 = found["boxes"][0].round().astype(int)
        inside = np.zeros((40, 40), bool)
        inside[y1:y2, x1:x2] = True
        assert found["image"][inside].min() > found["image"][~inside].max()
