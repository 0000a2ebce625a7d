"""Run lengths made from crops equal those of the whole image's mask."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask

from hires.errors import DataError
from hires.ops.instances import InstanceMask
from hires.ops.rle import run_lengths


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_equals_the_encoded_image(data):
    side = st.integers(1, 9)
    size, crop = (data.draw(side), data.draw(side)), (data.draw(side), data.draw(side))
    y, x = data.draw(st.integers(-3, 9)), data.draw(st.integers(-3, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    mask = rng.random(crop) < data.draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))
    image = np.zeros((30, 30), np.uint8)
    image[y + 10 : y + 10 + crop[0], x + 10 : x + 10 + crop[1]] = mask
    image = np.asfortranarray(image[10 : 10 + size[0], 10 : 10 + size[1]])
    assert run_lengths(InstanceMask(y, x, mask), size) == coco_mask.encode(image)["counts"]


def test_small_object_of_a_huge_image():
    counts = run_lengths(InstanceMask(50_000, 40_000, np.ones((3, 2), bool)), (60_000, 60_000))
    assert coco_mask.area({"size": [60_000, 60_000], "counts": counts}) == 6


def test_too_many_pixels_to_count():
    with pytest.raises(DataError, match="70000x70000"):
        run_lengths(InstanceMask(0, 0, np.ones((1, 1), bool)), (70_000, 70_000))
