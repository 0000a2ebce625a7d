"""Reads real sets with their dirt: odd sizes, soft masks, recurring names, multi-picture files."""

import os
from pathlib import Path

import numpy as np
import pytest

from hires.data.images import image_size, read_image
from hires.data.mask_folder import MaskFolder
from hires.data.pairs import find_pairs
from hires.interfaces import IGNORE, DataError

ROOT = Path(__file__).parents[2] / ".." / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data is not here"),
]


def magnetic_tile(**changes):
    usual = {
        "root": str(ROOT / "magnetic_tile"),
        "images": "*/Imgs/*.jpg",
        "masks": "*/Imgs/*.png",
        "classes": {"sound": 0, "defect": 255},
        "unlisted": "ignore",
        "splits": {"val": "MT_Free/**"},
        "cache_gib": 0,
    }
    return MaskFolder(**{**usual, **changes})


def test_small_gray_images_of_all_sizes():
    source = magnetic_tile().source("train")
    assert len(source) == 100
    sizes = {source.size(index) for index in range(len(source))}
    assert len(sizes) > 50
    for index in range(0, len(source), 5):
        image, target = source.read(index)
        assert image.shape == (*source.size(index), 3)
        assert image.shape[:2] == target["mask"].shape
        np.testing.assert_array_equal(image[..., 0], image[..., 2])
    assert magnetic_tile(channels=1).source("train").read(0)[0].shape[2] == 1


def test_soft_masks_are_refused_unless_the_rest_is_ignored():
    strict, tolerant = (magnetic_tile(unlisted=how).source("train") for how in ("error", "ignore"))
    blowhole = next(i for i in range(len(strict)) if "Blowhole" in strict.name(i))
    with pytest.raises(DataError, match=r"MT_Blowhole.*\.png: .*px\).*data.unlisted=ignore"):
        strict.mask(blowhole)
    assert {1, IGNORE} <= set(np.unique(tolerant.mask(blowhole)))


def test_names_that_recur_in_every_folder():
    pairs = find_pairs(ROOT / "dubai_aerial", "*/images/*.jpg", "*/masks/*.png")
    assert len(pairs) == 36
    assert all(Path(pair.image).parts[0] == Path(pair.truth).parts[0] for pair in pairs)


def test_colour_masks_are_refused_by_name():
    made = MaskFolder(
        root=str(ROOT / "dubai_aerial"),
        images="Tile 1/images/*.jpg",
        masks="Tile 1/masks/*.png",
        classes={"any": 0},
        splits={},
        cache_gib=0,
    )
    with pytest.raises(DataError, match=r"Tile 1/masks/image_part_001.png.*mode RGB"):
        made.source("train").read(0)


def test_multi_picture_files_give_their_first_picture():
    path = ROOT / "aerial_cars" / "DJI_0022.JPG"
    assert image_size(path) == (2250, 4000)
    assert read_image(path).shape == (2250, 4000, 3)


def test_every_image_is_decodable():
    folders = {"aerial_cars": "*.jpg", "bccd": "BCCD/JPEGImages/*1.jpg", "deeppcb": "PCBData/*/*/*0_test.jpg"}
    for folder, pattern in folders.items():
        paths = sorted((ROOT / folder).glob(pattern))
        assert paths
        for path in paths:
            assert read_image(path).shape[:2] == image_size(path)
