"""A mask value shows a class by its index, or by its bit."""

import numpy as np
import pytest
import torch

from hires.interfaces import IGNORE
from hires.ops.labels import MOST_LABELS, holds

VALUES = [0, 1, 2, 3, 64, 127, IGNORE]


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_indices(make):
    mask = make(VALUES)
    assert holds(mask, 2, False).tolist() == [value == 2 for value in VALUES]


@pytest.mark.parametrize("make", [lambda v: np.array(v, np.uint8), lambda v: torch.tensor(v, dtype=torch.uint8)])
def test_bits(make):
    mask = make(VALUES)
    assert holds(mask, 0, True).tolist() == [False, True, False, True, False, True, False]
    assert holds(mask, 1, True).tolist() == [False, False, True, True, False, True, False]
    assert holds(mask, MOST_LABELS - 1, True).tolist() == [False] * 4 + [True, True, False]


def test_all_labels_at_once_are_not_ignore():
    assert sum(1 << index for index in range(MOST_LABELS)) < IGNORE
