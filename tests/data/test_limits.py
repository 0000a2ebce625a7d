"""No sample goes beyond the limits, and they are no higher than they must be."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_boxes import Boxes
from hypothesis import given
from hypothesis import strategies as st

from hires.data.augment import Augment
from hires.data.box_counts import most_in_window
from hires.data.limits import data_limits
from hires.data.windows import WindowDataset
from tests.many_bands import make_set

squares = st.lists(st.tuples(*[st.integers(0, 12)] * 2, *[st.integers(1, 6)] * 2), max_size=7)


@given(st.lists(squares, max_size=3), st.integers(1, 8), st.integers(1, 8))
def test_the_most_boxes_of_any_window(images, height, width):
    boxes = [np.array([(x, y, x + w, y + h) for x, y, w, h in image], float).reshape(-1, 4) for image in images]
    # half a pixel off, a window touches no box from outside
    y, x = (corner.reshape(-1, 1) - 0.5 for corner in np.mgrid[-8:19, -8:19])
    counts = [
        ((b[:, 0] < x + width) & (b[:, 2] > x) & (b[:, 1] < y + height) & (b[:, 3] > y)).sum(axis=1).max()
        for b in boxes
    ]
    assert most_in_window(boxes, (height, width)) == max(counts, default=0)
    assert most_in_window(boxes, None) == max(map(len, boxes), default=0)


@pytest.fixture
def crowded():
    """Two images, one with all of its small objects in a corner, one with a few all over."""
    rng = np.random.default_rng(0)
    corners = [rng.integers(0, limit, (count, 2)) for limit, count in [(30, 25), (150, 12)]]
    boxes = [np.concatenate([corner, corner + 6], axis=1) for corner in corners]
    return Boxes([(160, 180), (200, 160)], boxes, [[0] * 25, [0] * 12])


@pytest.mark.parametrize(
    "changes",
    [{}, {"scale": (0.5, 2.0)}, {"mosaic": 1.0}, {"mosaic": 0.5, "scale": (0.4, 1.0)}, {"fit": "resize"}],
)
def test_samples_stay_within_the_limits(crowded, settings, changes):
    made = settings(**changes)
    limits = data_limits(crowded, (32, 40), made)
    assert limits.max_shape == (200, 160)
    if made.fit == "resize":
        assert limits.max_objects == 25
        return
    dataset = WindowDataset(crowded, (32, 40), made.window, Augment([]), 0, made.scale, 0, made.mosaic)
    dataset.place.share = 1.0
    counts = [len(dataset[(0, index)].target["boxes"]) for index in range(200)]
    assert max(counts) <= limits.max_objects
    assert limits.max_objects <= (100 if made.mosaic else 25)


def test_one_window_is_less_than_an_image(crowded, settings):
    few = data_limits(crowded, (8, 8), settings()).max_objects
    assert 0 < few < 25
    assert data_limits(crowded, (8, 8), replace(settings(), scale=(0.1, 1.0))).max_objects == 25


def test_the_type_of_pixels_is_that_of_the_files(folder, settings):
    make_set(folder, "int16", 3)
    made = settings()
    assert data_limits(made.source("train"), (16, 16), made).dtype == "int16"


def test_masks_have_no_objects(small_set, settings):
    made = settings()
    limits = data_limits(made.source("train"), (16, 16), made)
    assert limits.max_objects == 0
    assert limits.max_shape == (60, 80)
    assert limits.dtype == "uint8"
