"""Which pixels are near a border of classes: decided by the mask alone, and not by ignored pixels."""

import pytest
import torch

from hires.interfaces import IGNORE
from hires.losses.border import BorderPixels, EqualPixels, near_border
from hires.losses.labels import histogram

X = IGNORE


def near(rows, radius):
    return near_border(torch.tensor([rows], dtype=torch.uint8), radius)[0].int().tolist()


@pytest.mark.parametrize(
    ("row", "radius", "expected"),
    [
        ([0, 0, 0, 0, 1, 1, 1, 1], 1, [0, 0, 0, 1, 1, 0, 0, 0]),
        ([0, 0, 0, 0, 1, 1, 1, 1], 2, [0, 0, 1, 1, 1, 1, 0, 0]),
        ([2, 2, 2, 2, 2, 2, 2, 2], 3, [0, 0, 0, 0, 0, 0, 0, 0]),  # the border of the image is none
        ([0, 0, X, 1, 1, 1, 1, 1], 1, [0, 0, 0, 0, 0, 0, 0, 0]),  # what lies beside IGNORE is unknown
        ([0, 0, X, 1, 1, 1, 1, 1], 2, [0, 1, 0, 1, 0, 0, 0, 0]),
        ([X, X, X, X, 3, 3, 3, 3], 2, [0, 0, 0, 0, 0, 0, 0, 0]),
        ([X, X, X, X, X, X, X, X], 1, [0, 0, 0, 0, 0, 0, 0, 0]),
        ([254, 254, 254, 0, X, X, X, X], 1, [0, 0, 1, 1, 0, 0, 0, 0]),
        ([0, 0, 0, 0, 0, 0, 0, 6], 64, [1, 1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_rows(row, radius, expected):
    assert near([row], radius) == [expected]
    assert near([[value] for value in row], radius) == [[value] for value in expected]


def test_a_dot_has_a_square_around_it():
    mask = [[0] * 7 for _ in range(7)]
    mask[3][3] = 1
    assert near(mask, 2) == [[int(1 <= y <= 5 and 1 <= x <= 5) for x in range(7)] for y in range(7)]


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("radius", [1, 3])
def test_it_is_where_some_classs_membership_changes(multilabel, radius):
    generator = torch.Generator().manual_seed(3)
    masks = torch.randint(4, (2, 6, 5), dtype=torch.uint8, generator=generator)
    masks = masks.repeat_interleave(4, 1).repeat_interleave(4, 2)
    masks[torch.rand(masks.shape, generator=generator) < 0.2] = IGNORE
    expected = torch.zeros_like(masks, dtype=torch.bool)
    for image, y, x in (masks != IGNORE).nonzero().tolist():
        square = masks[image, max(0, y - radius) : y + radius + 1, max(0, x - radius) : x + radius + 1]
        square = square[square != IGNORE]
        members = [(square >> c) & 1 if multilabel else square == c for c in range(4)]
        expected[image, y, x] = any(len(m.unique()) > 1 for m in members)
    assert torch.equal(near_border(masks, radius), expected)


def test_counts_agree_with_weights():
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, X]], dtype=torch.uint8)
    border = BorderPixels(weight=1.5, radius=1)
    assert border.weights(border.near(mask[None])).flatten().tolist() == [1, 1, 2.5, 2.5, 1, 1, 1]
    assert border.weighted(mask, histogram(mask))[:2].tolist() == [4.5, 4.5]
    equal = EqualPixels()
    assert equal.weights(equal.near(mask[None])) == 1
    assert EqualPixels().weighted(mask, histogram(mask))[:2].tolist() == [3, 3]
