"""With several labels a pixel the class index counts and finds bits."""

import logging

import numpy as np
import pytest
from image_files import save
from test_focus import Masks

from hires.data.augment import Augment
from hires.data.focus import ClassIndex, class_pixels
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset
from hires.interfaces import IGNORE
from hires.ops.labels import holds

CLASSES = ("whole", "core", "tiny")


@pytest.fixture
def source():
    made = [
        np.random.default_rng(n).choice([0, 1, 3, 4, IGNORE], (50, 40), p=[0.8, 0.1, 0.05, 0.02, 0.03])
        for n in range(3)
    ]
    return Masks([*(mask.astype(np.uint8) for mask in made), np.zeros((9, 9), np.uint8)], CLASSES, multilabel=True)


def expected(source):
    return [[np.count_nonzero(holds(mask, c, True)) for c in range(3)] for mask in source.masks]


def test_counts_are_the_pixels_with_the_bit(source):
    np.testing.assert_array_equal(ClassIndex(source).counts, expected(source))


def test_class_pixels_add_up_over_images(source):
    pixels = class_pixels(source)
    assert pixels.dtype == np.int64
    np.testing.assert_array_equal(pixels, np.sum(expected(source), axis=0))


def test_class_pixels_of_indices():
    masks = [np.array([[0, 1], [1, IGNORE]], np.uint8), np.array([[1]], np.uint8)]
    assert class_pixels(Masks(masks)).tolist() == [1, 3, 0]


def test_all_classes_are_in_focus(source):
    assert ClassIndex(source).focus.tolist() == [0, 1, 2]
    assert ClassIndex(source, ["core"]).focus.tolist() == [1]


def test_picked_pixels_hold_the_class(source):
    rng = np.random.default_rng(0)
    for index, name in enumerate(CLASSES):
        picker = ClassIndex(source, [name])
        picked = [picker.pick(rng) for _ in range(100)]
        assert all(holds(source.masks[image], index, True)[y, x] for image, y, x in picked)
        assert len(set(picked)) > 20
        assert 3 not in {image for image, _, _ in picked}


def test_shares_are_of_all_counted_pixels(source, caplog):
    with caplog.at_level(logging.INFO):
        ClassIndex(source)
    counted = sum(np.count_nonzero(mask != IGNORE) for mask in source.masks)
    share = 100 * np.sum(expected(source), axis=0)[0] / counted
    assert f"class whole: {share:.4f}% of the pixels, in 3 image(s), in focus" in caplog.text


def test_nothing_but_background_is_nothing_in_focus():
    assert not ClassIndex(Masks([np.zeros((5, 5), np.uint8)], CLASSES, multilabel=True))


def test_windows_keep_their_bits_and_their_padding_is_ignored(folder, settings):
    mask = np.zeros((20, 30), np.uint8)
    mask[5:8, 5:8], mask[6, 6] = 1, 2
    save(folder / "images" / "a.png", mask)
    save(folder / "masks" / "a.png", mask)
    made = settings(classes={"outer": [1, 2], "inner": 2}, multilabel=True)
    dataset = WindowDataset(made.source("train"), (32, 32), WindowSettings(focus=1.0), Augment([]), 0)
    window = dataset[(0, 0)].target["mask"].numpy()
    assert np.bincount(window.ravel(), minlength=256)[[0, 1, 3, IGNORE]].tolist() == [591, 8, 1, 32 * 32 - 600]
