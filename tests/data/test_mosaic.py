"""Mosaics: four native windows that meet at a random point."""

import albumentations as A
import numpy as np
import pytest
import torch
from drawn_boxes import Boxes, colour
from hypothesis import given
from hypothesis import strategies as st

from hires.data.augment import Augment
from hires.data.mosaic import quadrants
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset
from hires.interfaces import IGNORE
from hires.settings import SettingError


def windows(source, size=(40, 56), transforms=(), mosaic=1.0, focus=0.5, scale=None, **options):
    settings = WindowSettings(focus=focus, **options)
    return WindowDataset(source, size, settings, Augment(transforms), 0, scale, 0, mosaic)


@pytest.fixture
def source():
    """Two images of six objects each that do not touch; labels and sizes follow from their number."""
    boxes = [(x, y, x + 8 + n, y + 20 - 2 * n) for n, (x, y) in enumerate(np.ndindex(3, 2))]
    boxes = [(x1 * 29 + 2, y1 * 25 + 3, x1 * 29 + x2 - x1 + 2, y1 * 25 + y2 - y1 + 3) for x1, y1, x2, y2 in boxes]
    return Boxes([(55, 90), (70, 95)], [boxes, boxes], [[0, 1, 2, 0, 1, 2]] * 2, instance_masks=True)


@given(st.integers(8, 300), st.integers(8, 300), st.integers(0, 100))
def test_quadrants_fill_the_area(height, width, seed):
    covered = np.zeros((height, width), int)
    places = quadrants((height, width), np.random.default_rng(seed))
    for y, x, rows, columns in places:
        covered[y : y + rows, x : x + columns] += 1
        assert rows >= height // 4
        assert columns >= width // 4
    assert len(places) == 4
    assert (covered == 1).all()


@pytest.mark.parametrize("transforms", [[], [A.D4()]])
def test_boxes_are_what_is_drawn(source, transforms):
    dataset = windows(source, (48, 48), transforms)
    cut = 0
    for index in range(30):
        sample = dataset[(0, index)]
        image = sample.image.numpy().transpose(1, 2, 0)
        filled = np.zeros(image.shape[:2], int)
        for box, label, ignored, mask in zip(
            *(sample.target[name].numpy() for name in ("boxes", "labels", "ignored", "masks")), strict=True
        ):
            x1, y1, x2, y2 = np.rint(box).astype(int)
            np.testing.assert_allclose(box, (x1, y1, x2, y2), atol=1e-3)
            filled[y1:y2, x1:x2] += 1
            inside = image[y1:y2, x1:x2].reshape(-1, 3)
            (number,) = (n for n in range(6) if (colour(n) == inside).all())
            assert label == source.labels[0][number]
            np.testing.assert_array_equal(mask != 0, covering(box, mask.shape))
            left, top, right, bottom = source.boxes[0][number]
            share = len(inside) / ((right - left) * (bottom - top))
            assert ignored == (share < 0.3)
            cut += share < 1
        np.testing.assert_array_equal(filled, image.any(axis=2))
    assert cut > 30


def covering(box, shape):
    x1, y1, x2, y2 = np.rint(box).astype(int)
    mask = np.zeros(shape, bool)
    mask[y1:y2, x1:x2] = True
    return mask


def test_quadrants_are_native_windows_in_their_places(source):
    dataset = windows(source, (40, 56), scale=(0.5, 2.0))
    sample = dataset[(0, 3)]
    image, reads = sample.image.numpy().transpose(1, 2, 0), source.reads[-4:]
    (_, _, _, top, left), *_, (_, _, _, bottom, right) = reads
    assert (top + bottom, left + right) == (40, 56)
    corners = [(0, 0), (0, left), (top, 0), (top, left)]
    for (at_y, at_x), (index, y, x, height, width) in zip(corners, reads, strict=True):
        read = source.image(index)[y : y + height, x : x + width]
        np.testing.assert_array_equal(image[at_y : at_y + height, at_x : at_x + width], read)
    assert sample.name.split(", ") == [source.name(read[0]) for read in reads]


def test_small_images_are_padded_in_their_quadrant():
    source = Boxes([(12, 10)], [[(0, 0, 10, 12)]], [[1]])
    sample = windows(source, (64, 64))[(0, 0)]
    assert sample.target["labels"].tolist() == [1] * 4
    assert sample.image.any(dim=0).sum() == 4 * 120


def test_masks_join_too(small_set, settings):
    source = settings().source("train")
    dataset = WindowDataset(source, (64, 64), WindowSettings(), Augment([]), 0, mosaic=1.0)
    samples = [dataset[(0, index)] for index in range(20)]
    assert all(sample.target["mask"].shape == (64, 64) for sample in samples)
    assert {int(v) for sample in samples for v in sample.target["mask"].unique()} == {0, 1, IGNORE}
    # the spot of the first two images is wherever the mask has a 1
    assert sum((sample.target["mask"] == 1).any().item() for sample in samples) > 10


def test_the_share_of_mosaics_and_the_other_samples(source):
    plain, some = windows(source, mosaic=0.0), windows(source, mosaic=0.3)
    mosaics = 0
    for index in range(300):
        sample = some[(0, index)]
        if "," in sample.name:
            mosaics += 1
        else:
            assert torch.equal(sample.image, plain[(0, index)].image)
    assert mosaics / 300 == pytest.approx(0.3, abs=0.08)


def test_samples_depend_on_their_key_only(source):
    keys = [(epoch, index) for epoch in range(2) for index in range(6)]
    first, again = (windows(source, mosaic=0.5, transforms=[A.D4()], size=(40, 40)) for _ in range(2))
    samples = {key: first[key] for key in keys}
    for key in reversed(keys):
        other = again[key]
        assert torch.equal(samples[key].image, other.image)
        assert torch.equal(samples[key].target["boxes"], other.target["boxes"])
    assert len({sample.image.numpy().tobytes() for sample in samples.values()}) > 10


def test_mosaics_need_windows(settings):
    assert settings(mosaic=0.5).mosaic == 0.5
    with pytest.raises(SettingError, match="mosaic: got 0.5.*fit=resize"):
        settings(mosaic=0.5, fit="resize")
    with pytest.raises(SettingError, match="mosaic"):
        settings(mosaic=1.5)
