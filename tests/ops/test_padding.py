"""Padding fills what it should, resizing keeps the aspect."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hires.interfaces import IGNORE
from hires.ops.padding import fitted_size, pad_to, resize_image, resize_mask

side = st.integers(1, 40)


@given(side, side, side, side)
def test_content_stays_at_the_top_left(height, width, below, right):
    array = np.arange(height * width, dtype=np.int64).reshape(height, width)
    padded = pad_to(array, height + below, width + right, IGNORE)
    np.testing.assert_array_equal(padded[:height, :width], array)
    assert (padded[height:] == IGNORE).all()
    assert (padded[:, width:] == IGNORE).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (2, 2), (5, 3)])
def test_reflection_fills_pads_larger_than_the_image(size):
    image = np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(*size, 3)
    padded = pad_to(image, 64, 50)
    period = [max(1, 2 * (n - 1)) for n in size]
    rows = [min(y % period[0], period[0] - y % period[0]) % size[0] for y in range(64)]
    columns = [min(x % period[1], period[1] - x % period[1]) % size[1] for x in range(50)]
    np.testing.assert_array_equal(padded, image[rows][:, columns])


def test_a_full_size_array_is_not_copied():
    image = np.zeros((4, 5, 3), np.uint8)
    assert pad_to(image, 4, 5) is image


def test_padding_to_less_is_refused():
    with pytest.raises(ValueError, match="smaller"):
        pad_to(np.zeros((4, 5)), 3, 5)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 600), st.integers(1, 600))
def test_fitted_size_lies_within_and_touches_a_side(height, width, most_high, most_wide):
    fitted = fitted_size((height, width), (most_high, most_wide))
    assert 1 <= fitted[0] <= most_high
    assert 1 <= fitted[1] <= most_wide
    assert fitted[0] == most_high or fitted[1] == most_wide


@pytest.mark.parametrize("channels", [1, 3])
def test_resizing_keeps_channels_and_means(channels):
    image = np.random.default_rng(0).integers(0, 256, (80, 60, channels), np.uint8)
    resized = resize_image(image, (20, 15))
    assert resized.shape == (20, 15, channels)
    assert resized.dtype == np.uint8
    assert abs(float(resized.mean()) - float(image.mean())) < 1


def test_resized_masks_hold_no_new_values():
    mask = np.where(np.eye(50, dtype=bool), 7, IGNORE).astype(np.uint8)
    assert set(np.unique(resize_mask(mask, (31, 17)))) <= {7, IGNORE}
