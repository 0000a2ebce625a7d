"""Class weights from counts of pixels."""

import pytest

from hires.losses.balance import balanced_weights

PIXELS = [9000, 900, 100]


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_they_follow_the_counts_with_a_mean_of_one(power):
    weights = balanced_weights(PIXELS, power)
    products = [weight * count**power for weight, count in zip(weights, PIXELS, strict=True)]
    assert products == pytest.approx([products[0]] * 3)
    mean = sum(weight * count for weight, count in zip(weights, PIXELS, strict=True)) / sum(PIXELS)
    assert mean == pytest.approx(1)


def test_a_class_without_pixels_counts_as_the_rarest():
    assert balanced_weights([0, 300, 100], 1.0) == pytest.approx((2.0, 2 / 3, 2.0))


def test_without_pixels_all_count_the_same():
    assert balanced_weights([0, 0], 0.5) == (1.0, 1.0)
