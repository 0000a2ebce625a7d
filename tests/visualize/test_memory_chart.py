"""The chart of a step's memory: areas, axis, phases, the peak."""

import re
from xml.etree import ElementTree

import pytest

from hires.visualize.memory_chart import Place, areas

MIB = 2**20
STEP = [Place(0, "forward", "stem"), Place(2, "backward", "stem"), Place(4, "optimizer", None)]


def drawn(text: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(tag))


def outline(path: str, xs: list[float]) -> list[float]:
    """The upper side of an area at each x."""
    steps = [(float(x), float(y)) for x, y in re.findall(r"H([\d.]+)V([\d.]+)", path)]
    return [next(y for start, y in reversed(steps) if start <= x) for x in xs]


def test_areas_lie_on_one_another_and_reach_the_total():
    layers = {"a": [4, 4, 4, 4], "never": [0, 0, 0, 0], "b": [0, 2, 6, 1], "c": [1, 0, 6, 0]}
    text = areas({name: [MIB * v for v in values] for name, values in layers.items()}, [], [3, 1, 0, 2])
    paths = {path.get("class"): path.get("d") for path in drawn(text, "path")}
    assert list(paths) == ["area c2", "area c0", "area c3"]  # upper ones first: lower ones are drawn over them
    grid = [float(line.get("y1")) for line in drawn(text, "line") if line.get("class") == "grid"]
    left, right = (float(drawn(text, "line")[0].get(side)) for side in ("x1", "x2"))
    middles = [left + (right - left) * (i + 0.5) / 4 for i in range(4)]
    heights = {name: [grid[0] - y for y in outline(path, middles)] for name, path in paths.items()}
    scale = heights["area c3"][0] / 4
    assert heights["area c3"] == pytest.approx([4 * scale] * 4, abs=0.2)
    assert heights["area c0"] == pytest.approx([v * scale for v in (4, 6, 10, 5)], abs=0.2)
    assert heights["area c2"] == pytest.approx([v * scale for v in (5, 6, 16, 5)], abs=0.2)


def test_the_peak_is_marked_where_it_is():
    text = areas({"a": [MIB, 2 * MIB, 9 * MIB, 3 * MIB, MIB]}, STEP, [0], peak="peak 9.0 MiB <b>")
    (dot,) = drawn(text, "circle")
    sides = re.findall(r"H([\d.]+)V([\d.]+)", drawn(text, "path")[0].get("d"))
    (x, y), (end, _) = sides[2], sides[3]
    assert float(x) < float(dot.get("cx")) < float(end)
    assert float(dot.get("cy")) == float(y) == min(float(level) for _, level in sides)
    assert "peak 9.0 MiB <b>" in [element.text for element in drawn(text, "text")]


@pytest.mark.parametrize(("largest", "unit_name"), [(3 * 2**29, "GiB"), (200 * MIB, "MiB"), (3000, "MiB")])
def test_the_axis_has_a_unit_and_ends_below_the_peak(largest, unit_name):
    marks = [element.text for element in drawn(areas({"a": [largest]}, [], [0]), "text")][:-1]
    assert 3 <= len(marks) <= 7
    assert {mark.split()[1] for mark in marks} == {unit_name}
    size = {"GiB": 2**30, "MiB": 2**20}[unit_name]
    assert 0.6 * largest < float(marks[-1].split()[0]) * size <= largest


@pytest.mark.parametrize("width", [360, 760])
@pytest.mark.parametrize("micro_batches", [1, 2, 40])
def test_phases_are_named_and_no_name_lies_on_another(width, micro_batches):
    turns = [(phase, "a_stage.0") for _ in range(micro_batches) for phase in ("forward", "backward")]
    places = [Place(3 * i, *turn) for i, turn in enumerate([*turns, ("optimizer", None)])]
    text = areas({"a": [MIB] * (6 * micro_batches + 1)}, places, [0], width=width)
    end = float(ElementTree.fromstring(text).get("viewBox").split()[3])
    rows: dict[float, list[tuple[float, float]]] = {}
    named = [element for element in drawn(text, "text") if element.get("class") == "label"][
        :-1
    ]  # the last: the peak
    assert {element.text for element in named} == {"forward", "backward", "optimizer"}
    for element in named:
        x, half = float(element.get("x")), 3.3 * len(element.text)  # about the width of bold letters
        rows.setdefault(float(element.get("y")), []).append((x - half, x + half))
    assert max(rows) < end
    for row in rows.values():
        assert row[0][0] >= 0
        assert row[-1][1] <= width
        assert all(left[1] <= right[0] for left, right in zip(row, row[1:], strict=False))


def test_a_mouse_is_told_the_unit_and_its_bytes():
    text = areas({"a": [MIB, 5 * MIB, 9 * MIB, 3 * MIB, MIB]}, STEP, [0])
    titles = [title.text for title in drawn(text, "title")]
    assert titles == [
        "forward of stem: up to 5.0 MiB",
        "backward of stem: up to 9.0 MiB",
        "optimizer: up to 1.0 MiB",
    ]


@pytest.mark.parametrize("layers", [{}, {"a": []}, {"a": [0, 0], "b": [0, 0]}])
def test_a_chart_of_nothing(layers):
    text = areas(layers, STEP, [0, 1])
    assert [element.text for element in drawn(text, "text")] == ["nothing to show"]


def test_places_after_the_last_sample_do_not_leave_the_chart():
    text = areas({"a": [MIB]}, [*STEP, Place(9, "end", None)], [0])
    assert all(0 <= float(rect.get("x")) + float(rect.get("width")) <= 360 for rect in drawn(text, "rect"))
