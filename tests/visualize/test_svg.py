from math import nan
from xml.etree import ElementTree

from hires.visualize.svg import bars, lines


def drawn(text: str, tag: str) -> list[dict[str, str]]:
    return [element.attrib for element in ElementTree.fromstring(text).iter(tag)]


def test_bars_are_as_long_as_their_values():
    text = bars([("<a>", [(4.0, "4 B"), (2.0, "2 B")]), ("b", [(None, "–"), (1.0, "1 B")])])
    widths = [float(bar["width"]) for bar in drawn(text, "rect")]
    assert [width / widths[0] for width in widths] == [1, 0.5, 0, 0.25]
    assert "<a>" in [element.text for element in ElementTree.fromstring(text).iter("text")]


def test_lines_go_up_and_leave_gaps():
    text = lines({"a&b": [1.0, 2.0, 3.0], "c": [1.0, 2.0, nan, 3.0, None, 2.0]})
    paths = [line["points"].split() for line in drawn(text, "polyline")]
    assert [len(points) for points in paths] == [3, 2]
    heights = [float(point.split(",")[1]) for point in paths[0]]
    assert heights == sorted(heights, reverse=True)
    assert len(drawn(text, "circle")) == 2  # single points between gaps


def test_charts_of_little():
    for text in (lines({"a": [2.0]}), lines({"a": [2.0, 2.0]}), lines({"a": [nan]}), lines({}), bars([])):
        assert ElementTree.fromstring(text).tag.endswith("svg")
