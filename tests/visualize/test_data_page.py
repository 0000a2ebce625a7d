"""The page and the summary of a check, from what data.json holds."""

import copy
import re
from io import StringIO

import pytest
from rich.console import Console

from hires.visualize.data import class_rows, page, summary, verdict

IMAGES = {
    "count": 3,
    "read": 2,
    "pixels": 12_000_000,
    "formats": {"PNG": 2},
    "types": {"uint8": 2},
    "bands": {"3": 2},
    "sizes": {"distinct": 2, "smallest": [10, 20], "median": [10, 20], "largest": [4000, 3000]},
    "range": [0.0, 255.0],
    "mean": [1.25, 2.0, 3.0],
    "deviation": [4.0, 5.0, 6.0],
}
OUTCOME = {
    "root": "/data/<set>",
    "image_size": [256, 512],
    "fit": "window",
    "counts": {"error": 1, "warning": 0, "info": 1},
    "findings": [
        {
            "code": "unreadable-image",
            "severity": "error",
            "text": "20 image(s) cannot be read",
            "advice": "remove them",
            "number": 20,
            "places": [{"file": f"<b>{n}</b>.png", "detail": "cut & short"} for n in range(20)],
        },
        {"code": "x", "severity": "info", "text": "sizes vary", "advice": "no", "number": 2, "places": []},
    ],
    "images": IMAGES,
    "splits": {"train": 2, "val": 1},
    "unit": "objects",
    "classes": [
        {
            "name": "[red]car[/red]",
            "counts": {"train": 1200, "val": 3},
            "images": {"train": 2, "val": 1},
            "sizes": {"5%": 4.2, "50%": 30.0, "95%": 61.0},
            "below": {"4": 0.05},
            "below_resized": 0.25,
        }
    ],
    "proposals": [{"key": "image_size", "value": [256, 512], "reason": "a < b"}],
    "proposed": {
        "file": "RUN/experiment/proposed.yaml",
        "command": "hires train --config-dir RUN experiment=proposed",
    },
    "seconds": 2.0,
}


@pytest.fixture
def outcome():
    return copy.deepcopy(OUTCOME)


def test_names_are_escaped_and_lists_cut(outcome):
    text = page(outcome)
    assert "<b>" not in text
    assert "&lt;b&gt;11&lt;/b&gt;.png" in text
    assert "&lt;b&gt;12&lt;/b&gt;.png" not in text
    assert "and 8 more" in text
    assert "cut &amp; short" in text
    assert "/data/&lt;set&gt;" in text
    assert "<code>image_size: [256, 512]</code>" in text
    assert not re.search(r"(src|href)=|url\(|@import|http", text)


def test_names_from_outside_stay_text_everywhere(outcome):
    hostile = "\" onload='x' <script>alert(1)</script>"
    outcome |= {
        "root": hostile,
        "splits": {hostile: 2},
        "proposals": [{"key": hostile, "value": [hostile], "reason": hostile}],
    }
    outcome["classes"][0] |= {"name": hostile, "counts": {hostile: 1}}
    outcome["images"]["formats"] = {hostile: 1}
    outcome["findings"][0] |= {
        "text": hostile,
        "advice": hostile,
        "places": [{"file": hostile, "detail": hostile}],
    }
    outcome["proposed"] = {"file": hostile, "command": hostile}
    text = page(outcome)
    assert "<script" not in text
    assert '" onload' not in text
    assert "onload='" not in text
    assert text.count("&lt;script&gt;alert(1)") >= 12


def test_errors_are_open_and_remarks_closed(outcome):
    text = page(outcome)
    assert text.count("<details open>") == 1
    assert text.count("<details>") == 1


def test_the_verdict(outcome):
    assert verdict(outcome) == "1 error, 0 warnings, 1 remark: training would stop, or learn something wrong"
    outcome["counts"] = {"error": 0, "warning": 2, "info": 0}
    assert verdict(outcome) == "0 errors, 2 warnings, 0 remarks: nothing that stops training"


def test_a_row_for_each_class(outcome):
    head, (row,) = class_rows(outcome)
    assert dict(zip(head, row, strict=True)) == {
        "class": "[red]car[/red]",
        **{"train": "1,200", "val": "3", "size 5 %": "4", "50 %": "30", "95 %": "61"},
        **{"under 4 px": "5.0 %", "under 3 px resized to 256x512": "25.0 %"},
    }


def test_the_terminal_shows_three_places_and_names_as_they_are(outcome):
    console = Console(width=200, record=True, file=StringIO())
    console.print(*summary(outcome), sep="\n")
    text = console.export_text()
    assert "    <b>2</b>.png: cut & short" in text
    assert "and 17 more" in text
    assert "[red]car[/red]" in text
    assert "hires train --config-dir RUN experiment=proposed" in text


def test_remarks_with_nothing_to_do_are_counted_in_the_terminal_and_stand_on_the_page(outcome):
    idle = {"code": "x", "severity": "info", "text": "9 sizes", "advice": "nothing to do: padded", "number": 9}
    outcome["findings"] += [idle | {"places": []}, idle | {"places": [], "text": "8 names"}]
    outcome["findings"] += [idle | {"places": [], "text": "7 soft", "advice": "nothing to do, if meant so"}]
    outcome["findings"] += [idle | {"places": [], "text": "6 alpha", "severity": "warning"}]
    console = Console(width=200, record=True, file=StringIO())
    console.print(*summary(outcome), sep="\n")
    text = console.export_text()
    assert "2 remarks with nothing to do: only in data.html" in text
    assert [name in text for name in ("9 sizes", "8 names", "7 soft", "6 alpha")] == [False, False, True, True]
    assert all(name in page(outcome) for name in ("9 sizes", "8 names"))


def test_what_is_not_known_is_a_dash(outcome):
    outcome["images"] |= {"read": 0, "mean": None, "deviation": None, "range": [None, None]}
    outcome["images"]["sizes"] = {"distinct": 0, "smallest": None, "median": None, "largest": None}
    outcome |= {"classes": [], "proposals": [], "image_size": None}
    text = page(outcome)
    assert "–" in text
    assert "None" not in text
    assert "Proposed settings" not in text
