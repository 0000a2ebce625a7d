"""Damaged image files give an array or a DataError: no hang, no dead process, no memory without bound."""

import pytest
from fuzzing import fuzz


def test_hundreds_of_damaged_images(tmp_path):
    outcome = fuzz(300, 0, tmp_path)
    assert outcome.findings == []
    assert outcome.read + outcome.refused == 300
    assert outcome.refused > 100


@pytest.mark.slow
def test_ten_thousand_damaged_images(tmp_path):
    outcome = fuzz(10_000, 1, tmp_path)
    assert outcome.findings == []
    assert outcome.read + outcome.refused == 10_000
    assert outcome.peak < 2 * 2**30
    assert outcome.slowest < 10
