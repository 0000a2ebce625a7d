"""What charts have in common."""

from xml.etree import ElementTree

import pytest

from hires.visualize.svg import drawing, ticks


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.31, 0.32), (-5, 17), (2, 2), (0, 0), (1e9, 3e9), (-1e-7, 0)])
def test_ticks_are_round_and_enclose_the_values(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 7
    assert found[0] <= low
    assert found[-1] >= high
    step = found[1] - found[0]
    assert all(b - a == pytest.approx(step) for a, b in zip(found, found[1:], strict=False))
    assert f"{step:.0e}"[0] in "125"


def test_a_drawing_says_what_it_is():
    root = ElementTree.fromstring(drawing(20, ["<text>1</text>"], 'bars of "a" & <b>', width=30))
    assert root.attrib["aria-label"] == 'bars of "a" & <b>'
    assert root.attrib["viewBox"] == "0 0 30 20"
