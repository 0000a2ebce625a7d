"""What is shown of a step's memory, from what memory.json holds."""

import io
import re
from html.parser import HTMLParser

from rich.console import Console

from hires.visualize.memory import page, table
from hires.visualize.memory_chart import Place
from hires.visualize.memory_units import units_table
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


def test_policies_of_ones_own_are_shown_in_the_terminal_by_their_functions():
    console = Console(width=80, file=io.StringIO())
    console.print(units_table({"stem": unit(), "head": unit(policy="mine.policies.narrow", kept=MIB)}))
    head = next(line for line in console.file.getvalue().splitlines() if line.startswith("head"))
    assert head.split()[:2] == ["head", "narrow"]
