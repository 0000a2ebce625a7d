"""What is shown of a step's memory, from what memory.json holds."""

import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from rich.console import Console

from hires.visualize.memory import page, table
from hires.visualize.memory_chart import Place, areas
from hires.visualize.page import document, legend

MIB = 2**20
CATEGORIES = (
    "parameters",
    "gradients",
    "optimizer state",
    "EMA",
    "inputs and targets",
    "activations",
    "recomputed",
    "loss",
    "temporaries",
    "kernel workspace",
    "gradient buckets",
)
STEP = [Place(0, "forward", "stem"), Place(2, "backward", "stem"), Place(4, "optimizer", None)]


def unit(**changes):
    policies = {
        "none": {"kept": 20 * MIB, "cost": 0.0},
        "selective": {"kept": 8 * MIB, "cost": 0.002},
        "full": {"kept": 5 * MIB, "cost": 0.031},
    }
    return {
        "policy": "none",
        "parameters": 1234,
        "modules": ["conv1"],
        "kept": 20 * MIB,
        "recomputed": 0,
        "cost": 0.0,
        "policies": policies,
        **changes,
    }


CHECKPOINTED = {"policy": "full", "kept": 5 * MIB, "recomputed": 15 * MIB, "cost": 0.031}


def outcome(**changes):
    """A step of five samples: 1 MiB of the first category, 2 of the second, ...; at the third one twice of all."""
    samples = {name: [i * MIB, i * MIB, 2 * i * MIB, i * MIB, 0] for i, name in enumerate(CATEGORIES, 1)}
    places = [{"index": place.index, "phase": place.phase, "unit": place.unit} for place in STEP]
    return {
        "command": "profile",
        "run_dir": "runs/1",
        "overrides": ["model=unet"],
        "device": "cpu",
        "precision": "32-true",
        "plan": {"micro_batch_size": 2, "accumulation_steps": 4, "image_size": [512, 384]},
        "peak_bytes": {
            "predicted": {"allocated": 132 * MIB, "reserved": None},
            "allocated": None,
            "reserved": None,
        },
        "live": 112 * MIB,
        "live_measured": None,
        "fitting": None,
        "alternatives": {
            "none": {"allocated": 132 * MIB, "reserved": 140 * MIB, "cost": 0.0},
            "full": {"allocated": 66 * MIB, "reserved": 70 * MIB, "cost": 0.31},
        },
        "peak_at": {"phase": "backward", "unit": "stem"},
        "categories": {name: values[2] for name, values in samples.items()},
        "reserved_parts": {"context": None, "allocator": None},
        "units": {"stem": unit(), "stage1.0": unit(**CHECKPOINTED)},
        "timeline": {"places": places, "bytes": samples},
        "verdict": "It fits.",
        "notes": ["Not run on CUDA."],
        **changes,
    }


class Page(HTMLParser):
    """The elements of a page, its text, and its tables as rows of texts."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.in_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.in_cell = True
            self.rows[-1].append("")
        elif tag == "small":
            self.rows[-1][-1] += " "

    def handle_endtag(self, tag):
        self.in_cell &= tag not in ("td", "th")

    def handle_data(self, data):
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data

    def row(self, name: str) -> list[str]:
        return next(row for row in self.rows if row[0] == name)


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


def test_the_page_says_what_occupies_memory_and_where():
    shown = Page(page(outcome()))
    for text in (
        "It fits.",
        "Not run on CUDA.",
        "132.0 MiB",
        "backward of stem",
        "peak 132.0 MiB, backward of stem",
    ):
        assert text in shown.text
    assert "4 micro-batches of 2 images, 512 x 384 (height x width), 32-true on cpu" in shown.text
    assert shown.text.index("It fits.") < shown.text.index("132.0 MiB")
    for index, name in enumerate(CATEGORIES, 1):
        assert shown.row(name) == [name, f"{2 * index}.0 MiB", f"{100 * index / 66:.1f} %"]
    assert shown.row("together") == ["together", "132.0 MiB", "100.0 %"]
    assert shown.row("live tensors") == ["live tensors", "112.0 MiB"]


def test_every_category_has_a_colour_of_its_own_everywhere():
    text = page(outcome())
    keys = re.findall(r'<span class="key"><i class="(c\d+)"></i>([^<]+)</span>', text)
    assert [name for _, name in keys] == list(CATEGORIES)
    assert len({colour for colour, _ in keys}) == len(CATEGORIES)
    assert re.findall(r'<td><i class="(c\d+)"></i>([^<]+)</td>', text) == keys
    assert re.findall(r'class="area (c\d+)"', text) == 2 * [colour for colour, _ in reversed(keys)]


def test_colours_of_the_page_differ_in_light_and_dark():
    text = document("", [legend(CATEGORIES)])
    light, dark = text.split("prefers-color-scheme: dark")
    for scheme in (light, dark):
        colours = re.findall(r"--c\d+: (#\w{6})", scheme)
        assert len(set(colours)) == 11
    for index in re.findall(r'class="c(\d+)"', text):
        assert f"i.c{index} {{ background: var(--c{index}); }}" in text


def test_bytes_of_no_category_are_told():
    peaks = {"predicted": {"allocated": 135 * MIB, "reserved": None}, "allocated": None, "reserved": None}
    shown = Page(page(outcome(peak_bytes=peaks)))
    assert shown.row("rounding and rest")[1] == "3.0 MiB"
    assert shown.row("together")[1] == "135.0 MiB"


def test_measured_stands_beside_predicted():
    predicted = {"allocated": 132 * MIB, "reserved": 300 * MIB}
    peaks = {"predicted": predicted, "allocated": 120 * MIB, "reserved": 250 * MIB}
    parts = {"context": 100 * MIB, "allocator": 200 * MIB}
    shown = Page(page(outcome(peak_bytes=peaks, reserved_parts=parts)))
    assert shown.row("allocated") == ["allocated", "132.0 MiB", "120.0 MiB", "1.10"]
    assert shown.row("reserved") == ["reserved", "300.0 MiB", "250.0 MiB", "1.20"]
    assert shown.row("reserved: context") == ["reserved: context", "100.0 MiB", "–", "–"]
    assert "predicted / measured 1.10" in shown.text


def test_what_was_not_measured_is_not_shown_as_such():
    shown = Page(page(outcome()))
    assert shown.row("allocated") == ["allocated", "132.0 MiB"]
    assert shown.row("reserved") == ["reserved", "–"]
    assert "Measured" not in shown.text
    assert "memory.measure=true" in shown.text


def test_units_say_what_other_policies_save_and_cost():
    shown = Page(page(outcome()))
    assert shown.row("unit") == ["unit", "parameters", "policy", "kept", "none", "selective", "full", "modules"]
    trades = ["in use", "saves 12.0 MiB +0.2 %", "saves 15.0 MiB +3.1 %"]
    assert shown.row("stem") == ["stem", "1,234", "none", "20.0 MiB", *trades, "conv1"]
    trades = ["adds 15.0 MiB −3.1 %", "adds 3.0 MiB −2.9 %", "in use"]
    assert shown.row("stage1.0") == ["stage1.0", "1,234", "full", "5.0 MiB", *trades, "conv1"]


def test_bars_are_as_long_as_what_units_keep():
    tags = Page(page(outcome())).tags
    widths = [attrs["style"] for tag, attrs in tags if tag == "i" and "style" in attrs]
    assert widths == ["width:100.00%", "width:0.00%", "width:25.00%", "width:75.00%"]


def test_names_are_text_and_the_page_needs_nothing_else():
    hostile = '<script>alert("1")</script>'
    units = {hostile: unit(policy="<b>", modules=["<img src=x>"])}
    places = [{"index": 0, "phase": "<u>forward", "unit": hostile}]
    samples = outcome()["timeline"]["bytes"]
    text = page(
        outcome(
            units=units,
            notes=[hostile],
            verdict=hostile,
            overrides=[hostile],
            peak_at={"phase": "<u>forward", "unit": hostile},
            timeline={"places": places, "bytes": samples},
        )
    )
    shown = Page(text)
    assert not {"script", "img", "b", "u", "link", "iframe"} & {tag for tag, _ in shown.tags}
    assert shown.row(hostile)[2] == "<b>"
    assert "http" not in text
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower()
    assert 'name="viewport"' in text


def test_one_unit_and_an_empty_timeline():
    empty = {"places": [], "bytes": {name: [] for name in CATEGORIES}}
    nothing = dict.fromkeys(CATEGORIES, 0)
    shown = Page(page(outcome(units={"stem": unit(policies={})}, timeline=empty, categories=nothing, live=0)))
    assert "nothing to show" in shown.text
    assert shown.row("unit") == ["unit", "parameters", "policy", "kept", "modules"]


def test_the_table_in_a_terminal_of_80_columns():
    console = Console(width=80, file=io.StringIO())
    console.print(table(outcome(units={"[red]x": unit(), "stage1.0": unit(**CHECKPOINTED)})))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert rows["It"] == ["It", "fits."]
    assert rows["activations"][:5] == ["activations", "12.0", "MiB", "9.1", "%"]
    assert rows["allocated"] == ["allocated", "132.0", "MiB"]
    assert rows["[red]x"][1:] == ["none", "1,234", "20.0", "MiB", "in", "use", "12.0", "+0.2%", "15.0", "+3.1%"]
    assert rows["stage1.0"][5:9] == ["−15.0", "−3.1%", "−3.0", "−2.9%"]


def test_the_peak_under_one_policy_for_all():
    html = page(
        outcome(
            peak_bytes={
                "predicted": {"allocated": 132 * MIB, "reserved": None},
                "allocated": None,
                "reserved": None,
            }
        )
    )
    assert "<td>full</td><td>66.0 MiB</td><td>50.0 %</td><td>+31 %</td>" in html
