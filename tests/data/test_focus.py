"""The class index counts pixels and finds them again."""

import logging
from dataclasses import dataclass

import numpy as np
import pytest

from hires.data import focus
from hires.data.focus import ClassIndex
from hires.interfaces import IGNORE, ConfigError, DataError


@dataclass
class Masks:
    """A source of nothing but masks."""

    masks: list
    classes: tuple = ("ground", "rare", "rarer")
    multilabel: bool = False

    def __len__(self):
        return len(self.masks)

    def mask(self, index):
        return self.masks[index]


@pytest.fixture
def masks():
    made = [
        np.random.default_rng(n).choice([0, 1, 2, IGNORE], (50, 40), p=[0.9, 0.05, 0.02, 0.03]) for n in range(3)
    ]
    made = [mask.astype(np.uint8) for mask in made]
    made.append(np.zeros((30, 30), np.uint8))
    return Masks(made)


def test_counts_are_the_pixels(masks):
    index = ClassIndex(masks)
    expected = [[np.count_nonzero(mask == c) for c in range(3)] for mask in masks.masks]
    np.testing.assert_array_equal(index.counts, expected)


def test_picked_pixels_hold_a_focus_class(masks):
    index, rng = ClassIndex(masks), np.random.default_rng(0)
    picked = [index.pick(rng) for _ in range(600)]
    values = np.array([masks.masks[image][y, x] for image, y, x in picked])
    assert np.mean(values == 1) == pytest.approx(0.5, abs=0.1)
    assert np.mean(values == 2) == pytest.approx(0.5, abs=0.1)
    images = np.bincount([image for image, _, _ in picked], minlength=4)
    assert images[3] == 0
    assert (images[:3] > 150).all()
    assert len(set(picked)) > 150


def test_few_samples_still_come_from_everywhere(masks, monkeypatch):
    monkeypatch.setattr(focus, "_SAMPLES", 20)
    index, rng = ClassIndex(masks, ["ground"]), np.random.default_rng(0)
    picked = {index.pick(rng) for _ in range(2000)}
    assert len(picked) == 4 * 20
    assert all(masks.masks[image][y, x] == 0 for image, y, x in picked)
    rows = [y for _, y, _ in picked]
    assert min(rows) < 10
    assert max(rows) > 40


def test_the_same_masks_give_the_same_index(masks):
    first, second = (ClassIndex(masks) for _ in range(2))
    rngs = [np.random.default_rng(5) for _ in range(2)]
    assert [first.pick(rngs[0]) for _ in range(50)] == [second.pick(rngs[1]) for _ in range(50)]


def test_named_classes_only(masks):
    index, rng = ClassIndex(masks, ["rarer"]), np.random.default_rng(0)
    assert all(masks.masks[i][y, x] == 2 for i, y, x in (index.pick(rng) for _ in range(50)))


def test_unknown_classes_are_refused_with_the_nearest(masks):
    with pytest.raises(ConfigError, match="'rarest'.*ground, rare, rarer; did you mean rare"):
        ClassIndex(masks, ["rarest"])


def test_no_rare_class_anywhere(caplog):
    with caplog.at_level(logging.INFO):
        assert not ClassIndex(Masks([np.zeros((5, 5), np.uint8)]))
        assert not ClassIndex(Masks([np.zeros((5, 5), np.uint8)], classes=("ground",)))
    assert "no image holds a class in focus" in caplog.text


def test_nothing_to_learn_from_is_an_error():
    with pytest.raises(DataError, match="every training pixel is ignored"):
        ClassIndex(Masks([np.full((5, 5), IGNORE, np.uint8)]))


def test_one_line_per_class(masks, caplog):
    with caplog.at_level(logging.INFO):
        ClassIndex(masks)
    assert len(caplog.records) == 3
    assert "class rare: " in caplog.text
    assert "in 3 image(s), in focus" in caplog.text
