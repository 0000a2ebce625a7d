"""Damaged image files give an array or a DataError: no hang, no dead process, no memory without bound."""

import fuzz_images
import pytest
from fuzzing import _outcome, fuzz

from hires.data.formats.image_file import naming


def test_hundreds_of_damaged_images(tmp_path):
    outcome = fuzz(300, 0, tmp_path)
    assert outcome.findings == []
    assert outcome.read + outcome.refused == 300
    assert outcome.refused > 100
    assert outcome.peak < 2 * 2**30


def test_what_wants_more_memory_than_there_is_is_a_finding(tmp_path, monkeypatch):
    def hungry(path):
        with naming(path):
            raise MemoryError

    monkeypatch.setattr(fuzz_images, "attempt", hungry)
    found = _outcome(tmp_path / "a", "mutation 7", 0)
    assert found["findings"] == ["mutation 7: wanted more than 2048 MiB"]


@pytest.mark.slow
def test_ten_thousand_damaged_images(tmp_path):
    outcome = fuzz(10_000, 1, tmp_path)
    assert outcome.findings == []
    assert outcome.read + outcome.refused == 10_000
    assert outcome.peak < 2 * 2**30
    assert outcome.slowest < 10
