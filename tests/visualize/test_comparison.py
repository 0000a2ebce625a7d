"""What is shown of a comparison, from what compare.json holds."""

import io
import re
from html.parser import HTMLParser

from rich.console import Console

from hires.visualize.comparison import page, table, verdict

EQUAL = {"value": 0.0, "name": None}


def found(**changes):
    return {
        "overrides": [],
        "allocated": 3 * 2**29,
        "reserved": 5 * 2**20,
        "seconds_per_step": 0.25,
        "ratio": 1.0,
        "losses": [2.0, 1.5],
        "largest_difference": {"gradient": EQUAL, "parameter": EQUAL, "buffer": EQUAL},
        "metrics": None,
        "plan": {},
        **changes,
    }


def outcome(**settings):
    first = next(iter(settings))
    return {"reference": first, "steps": 2, "overrides": ["<i>=1"], "settings": settings}


class Tags(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)

    def handle_data(self, data):
        self.text += data


def test_names_and_overrides_are_text():
    names = {
        "<script>alert(1)</script>": found(),
        "b\"'&": found(),
        "b": found(overrides=["x='<img src=x>'"], losses=[2.0, None]),
    }
    differs = {**EQUAL, "value": 0.5, "name": "<b>weight"}
    names["c"] = found(largest_difference={"gradient": differs, "parameter": None, "buffer": EQUAL})
    tags = Tags(page(outcome(**names)))
    assert not {"script", "img", "b"} & set(tags.found)
    for text in ("<script>alert(1)</script>", "x='<img src=x>'", "<b>weight", "<i>=1"):
        assert text in tags.text


def test_the_page_needs_nothing_else():
    text = page(outcome(a=found(), b=found()))
    assert "http" not in text
    assert not {"script", "link", "iframe", "img"} & set(Tags(text).found)
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert text.count("<svg") == 2  # for a phone and for a laptop


def test_what_was_not_measured_is_a_dash():
    nothing = {"allocated": None, "reserved": None, "seconds_per_step": None, "ratio": None}
    text = page(outcome(a=found(**nothing), b=found(**nothing)))
    assert text.count("<td>–</td>") == 8
    assert "Peak memory" not in text
    assert "Seconds of a step" not in text
    assert "All end with the same parameters as a, to the bit." in text
    assert "Least" not in text


def test_the_verdict_names_the_least_and_what_differs():
    other = {"gradient": EQUAL, "parameter": {"value": 1e-3, "name": "w"}, "buffer": EQUAL}
    small = found(reserved=4 * 2**20, seconds_per_step=0.5, largest_difference=other)
    assert verdict(outcome(none=found(), full=small)) == (
        "Least memory reserved: full (4.0 MiB, 0.80 of none). Least time a step: none (250 ms). "
        "Other parameters than those of none: full."
    )


def test_equal_losses_are_all_seen():
    text = page(outcome(a=found(), b=found(), c=found()))
    widths = [float(width) for width in re.findall(r'class="line c\d+" stroke-width="([^"]*)"', text)]
    assert len(widths) == 6
    assert widths[0] > widths[1] > widths[2] > 0


def test_the_table_in_a_terminal_of_80_columns():
    differs = {**EQUAL, "value": 1.26e-4, "name": "weight"}
    broken = {**EQUAL, "value": None, "name": "weight"}
    other = found(
        largest_difference={"gradient": differs, "parameter": None, "buffer": broken},
        metrics={"mIoU": 0.5, "IoU/a": 0.25},
        seconds_per_step=2.0,
    )
    console = Console(width=80, file=io.StringIO())
    console.print(table(outcome(**{"[red]x": found(), "b": other})))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[0] == [
        "allocated",
        "reserved",
        "step",
        "ratio",
        "loss",
        "mIoU",
        "gradients",
        "weights",
        "buffers",
    ]
    assert lines[1] == ["[red]x", "1.50", "GiB", "5.0", "MiB", "250", "ms", "1.00", "1.5", "–", "0", "0", "0"]
    assert lines[2][6:] == ["s", "1.00", "1.5", "0.5000", "1.3e-04", "–", "inf/nan"]
