"""Reads the fundus images with their vessels as they are shipped."""

import os
from pathlib import Path

import numpy as np
import pytest

from hires.data.augment import Augment
from hires.data.mask_folder import MaskFolder
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset, windows_in_epoch
from hires.interfaces import Window

ROOT = Path(__file__).parents[2] / ".." / "shared" / "data" / "hrf"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data/hrf is not here"),
]


@pytest.fixture
def settings(tmp_path):
    return MaskFolder(
        root=str(ROOT),
        images="*/images/*.jpg",
        masks="*/mask/*.tif",
        classes={"background": 0, "vessel": 255},
        splits={"train": "training/**", "val": "test/**", "test": "test/**"},
        cache_dir=str(tmp_path),
    )


def test_every_image_and_mask(settings):
    assert [len(settings.source(split)) for split in ("train", "val", "test")] == [5, 6, 6]
    for split in ("train", "val"):
        source = settings.source(split)
        for index in range(len(source)):
            image, target = source.read(index)
            assert image.shape == (2336, 3504, 3)
            assert source.size(index) == target["mask"].shape == (2336, 3504)
            assert 0.05 < target["mask"].mean() < 0.11


def test_a_window_is_a_part_of_the_whole(settings):
    source, window = settings.source("train"), Window(900, 1700, 256, 300)
    image, target = source.read(2)
    part, part_target = source.read(2, window)
    np.testing.assert_array_equal(part, image[900:1156, 1700:2000])
    np.testing.assert_array_equal(part_target["mask"], target["mask"][900:1156, 1700:2000])


def test_training_windows_hold_vessels(settings):
    source = settings.source("train")
    assert windows_in_epoch(source, (512, 512), settings) == 157
    dataset = WindowDataset(source, (512, 512), WindowSettings(focus=1.0), Augment([]), seed=0)
    for index in range(20):
        assert (dataset[(0, index)].target["mask"] == 1).any()
