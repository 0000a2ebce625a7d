"""The chart of what a search has tried."""

import re
from itertools import combinations

import pytest

from hires.visualize.search_chart import Mark, scatter
from tests.visualize.searches import MIB


def marks_of(text):
    """The centres of the marks of a chart by colour, and its rings, diamonds and crosses."""
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="4.5" class="(c\d+)"', text)
    return [(float(x), float(y), colour) for x, y, colour in dots], text.count('r="9.0"')


def test_more_bytes_lie_higher_and_more_time_further_right():
    marks = [
        Mark(0.0, 1500 * MIB, "1", ""),
        Mark(0.2, 900 * MIB, "2", "", 1, "chosen"),
        Mark(0.1, 500 * MIB, "3", ""),
    ]
    text = scatter(marks, 1000 * MIB)
    ((x1, y1, _), (x2, y2, colour), (x3, y3, _)), rings = marks_of(text)
    assert x1 < x3 < x2
    assert y1 < y2 < y3
    budget = float(re.search(r'y1="([\d.]+)" y2="[\d.]+" class="mark"', text)[1])
    assert y1 < budget < y2
    assert (colour, rings) == ("c1", 1)
    assert "chosen: 2" in text


def test_a_probe_is_a_mark_of_another_kind():
    predicted = Mark(0.1, 900 * MIB, "1", "", 0, "chosen")
    assert scatter([predicted], 1000 * MIB).count("<path") == 0
    text = scatter([predicted, Mark(0.1, 700 * MIB, "1", "found", 0, "measured")], 1000 * MIB)
    assert text.count("<path") == 1
    assert "<title>found</title>" in text
    lines = re.findall(r'<line x1="([\d.]+)" x2="([\d.]+)" y1="([\d.]+)" y2="([\d.]+)" class="mark"', text)
    assert any(x1 == x2 and y1 != y2 for x1, x2, y1, y2 in lines)  # from one to the other


@pytest.mark.parametrize("width", [360, 760])
def test_labels_of_many_marks_do_not_meet(width):
    marks = [Mark(0.007 * (7 * i % 60), (300 + 37 * (11 * i % 60)) * MIB, str(i), "", i) for i in range(1, 60)]
    marks.append(Mark(0.2, 980 * MIB, "60", "", 0, "chosen"))
    text = scatter(marks, 1000 * MIB, width=width)
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)" [^>]*>([^<]+)', text)
    boxes = []
    for x, y, anchor, letters in found:
        wide = 6.5 * len(letters)
        left = float(x) - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
        assert left >= 0
        assert left + wide <= width
        boxes.append((left, left + wide, float(y) - 9, float(y)))
    for (a, b, c, d), (e, f, g, h) in combinations(boxes, 2):
        assert b <= e or f <= a or d <= g or h <= c
    assert "chosen: 60" in text
    assert len(found) > 30


def test_nothing_to_show():
    assert "nothing to show" in scatter([], 1000 * MIB)
