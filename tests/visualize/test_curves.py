"""Lines of series over a common axis."""

import re

import pytest

from hires.visualize.curves import curves


def lines(text, width=760):
    """(colour, points) of the chart of a width."""
    chart = next(part for part in text.split("<svg") if part.startswith(f' viewBox="0 0 {width} '))
    found = re.findall(r'<polyline points="([^"]*)" class="line (c\d+)"', chart)
    return [(colour, [tuple(map(float, p.split(","))) for p in path.split()]) for path, colour in found]


def test_series_of_different_places_share_an_axis():
    text = curves({"short": [(1, 1.0), (5, 0.5)], "long": [(1, 1.0), (5, 0.5), (9, 0.0)]}, "step")
    (_, short), (_, long) = lines(text)
    assert short == long[:2]
    left, middle, right = (x for x, _ in long)
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert long[0][1] < long[1][1] < long[2][1]  # what is larger lies above
    assert text.count("<svg") == 2


def test_marks_of_the_axis_are_told_apart():
    text = curves({"a": [(1, 2.5236), (2, 2.5256)]}, "step")
    marks = re.findall(r'text-anchor="end" class="">([^<]+)<', text[: text.index("</svg>")])
    numbers = [mark for mark in marks if "." in mark]
    assert len(set(numbers)) == len(numbers) >= 4


def test_gaps_and_single_points():
    text = curves({"a": [(1, 1.0), (2, 2.0), (3, None), (4, float("nan")), (5, 1.0)]}, "step")
    assert len(lines(text)) == 1
    assert text.count("<circle") == 2  # the last point, in both charts


def test_colours_may_be_those_of_a_longer_list():
    assert [colour for colour, _ in lines(curves({"b": [(1, 1.0), (2, 2.0)]}, "step", [7]))] == ["c7"]


def test_nothing_to_show():
    assert "nothing to show" in curves({"a": [(1, None)]}, "step")
    assert "nothing to show" in curves({}, "step")


def test_long_series_stay_small_and_keep_their_ends():
    text = curves({"a": [(step, float(step)) for step in range(100_001)]}, "step")
    (_, points), *_ = lines(text)
    assert len(points) <= 401
    assert len(text) < 30_000
    assert points[-1][0] == max(x for x, _ in points) == 750.0


def test_names_are_text():
    text = curves({"<b>x": [(1, 1.0), (2, 2.0)]}, "<i>step")
    assert "<b>" not in text
    assert "<i>" not in text
