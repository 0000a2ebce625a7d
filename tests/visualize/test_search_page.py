"""What is shown of a search for a plan, from what search.json holds."""

import io
import re
from html.parser import HTMLParser
from itertools import combinations

import pytest
from rich.console import Console

from hires.visualize.search import page, table
from hires.visualize.search_chart import Mark, scatter

MIB = 2**20
UNITS = ("stem", "stage1.0", "stage1.1", "stage1.2", "head")


def step(size, policies, reserved, cost, *, budget=1000, micro=2):
    return {
        "micro_batch_size": micro,
        "image_size": [size, 384],
        "policies": policies,
        "allocated": (reserved - 40) * MIB,
        "reserved": reserved * MIB,
        "cost": cost,
        "time": 1e9,
        "fits": reserved <= budget,
    }


MIXED = {"stem": "full", "stage1.0-1": "selective"}
ALSO_MIXED = {"stem": "full", "stage1.2": "selective"}
TRIED = [
    step(256, "full", 300, 0.3),
    step(512, "none", 1600, 0.0),
    step(512, ALSO_MIXED, 900, 0.22),
    step(512, MIXED, 900, 0.17),
    step(544, "full", 1100, 0.3),
    step(544, "full@2", 1050, 0.3),
    step(512, MIXED, 900, 0.17),  # once more, after a probe
]


def probe(row, *, reserved=None, allocated=None, fits=True, **found):
    measured = {"live": None, "seconds": None, "spread": None, "retries": 0, "out_of_memory": False, **found}
    return {**row, "measured": {**measured, "allocated": allocated, "reserved": reserved}, "fits": fits}


def plan(**changes):
    """Two micro-batches of 2 at 512 x 384."""
    return {
        "micro_batch_size": 2,
        "accumulation_steps": 2,
        "image_size": [512, 384],
        "precision": "bf16-mixed",
        "policies": dict(zip(UNITS, ("full", "selective", "selective", "none", "none"), strict=True)),
        "budget": 1000 * MIB,
        "margin": 20 * MIB,
        "predicted": {"allocated": 860 * MIB, "reserved": 900 * MIB},
        "measured": None,
        "reasons": [],
        "rungs": [],
        **changes,
    }


def outcome(**changes):
    """A search that was not followed by probes."""
    return {
        "command": "autobatch",
        "run_dir": "runs/1",
        "overrides": [],
        "device": "cuda",
        "goal": "resolution",
        "budget": 1000 * MIB,
        "plan": plan(),
        "override": "micro_batch_size=2 'image_size=[512,384]' "
        "'memory.activation_checkpointing={stem: full, stage1.0-1: selective}'",
        "peak_bytes": {
            "predicted": {"allocated": 860 * MIB, "reserved": 900 * MIB},
            "allocated": None,
            "reserved": None,
        },
        "tried": TRIED,
        "probes": [],
        "seconds": 3.25,
        "notes": [],
        **changes,
    }


def measured(**changes):
    """A search with a probe that ran out of memory and one that fitted."""
    failed = probe(TRIED[1], fits=False, out_of_memory=True)
    good = probe(TRIED[3], reserved=800 * MIB, allocated=790 * MIB, seconds=1.5)
    peaks = {**outcome()["peak_bytes"], "allocated": 790 * MIB, "reserved": 800 * MIB}
    return outcome(probes=[failed, good], peak_bytes=peaks, **changes)


class Page(HTMLParser):
    """The elements of a page, its text, and its tables as rows of texts."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.codes: list[str] = []
        self.inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "small":
            self.rows[-1][-1] += " | "
        elif tag == "code":
            self.codes.append("")
        if tag in ("td", "th", "code"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in ("td", "th", "code"):
            self.inside.pop()

    def handle_data(self, data):
        self.text += data
        if "code" in self.inside:
            self.codes[-1] += data
        elif self.inside:
            self.rows[-1][-1] += data

    def row(self, name: str) -> list[str]:
        return next(row for row in self.rows if row[0] == name)


def test_the_answer_comes_first():
    shown = Page(page(outcome()))
    answer = "2 images of 512 x 384 pixels in a micro-batch, bf16-mixed, fit into 1000.0 MiB."
    assert shown.text.index(answer) < shown.text.index("900.0 MiB") < shown.text.index("Why this plan")
    assert "100.0 MiB stay free (10.0 %), as predicted" in shown.text
    assert "2 micro-batches of 2 images of 512 x 384 pixels (height x width) on cuda" in shown.text
    assert "Policies: stem: full, stage1.0-1: selective; none for the rest." in shown.text
    assert shown.codes == ["memory.plan=runs/1/plan.yaml", outcome()["override"]]
    assert "Measured peak" not in shown.text


def test_a_measured_peak_decides_what_stays_free():
    shown = Page(page(measured()))
    assert "Measured peak" in shown.text
    assert "predicted / measured 1.12" in shown.text
    assert "200.0 MiB stay free (20.0 %), as measured" in shown.text


def test_why_this_plan_is_read_from_the_search():
    text = Page(page(outcome())).text
    assert "the largest image" in text
    assert "1 image" not in text
    next_larger = "2 images of 544 x 384, reserves 1.03 GiB or more, 50.0 MiB above the budget (predicted)."
    assert next_larger in text
    assert "computes 17.0 % of the step again" in text
    assert "without that it would reserve 1.56 GiB, 600.0 MiB above the budget" in text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"goal": None}, "Micro-batch and image size were given"),
        ({"goal": "throughput"}, "the most pixels in a time"),
        ({"goal": "something new"}, "something new"),
        ({"tried": TRIED[:4]}, "No larger step was tried."),
        (
            {"goal": "batch", "tried": TRIED[:4], "plan": plan(accumulation_steps=1)},
            "No larger step was tried: the micro-batch is the whole batch.",
        ),
        (
            {"tried": [*TRIED[:4], step(544, "full", 990, 0.3)]},
            "would leave 10.0 MiB; 20.0 MiB have to stay free",
        ),
        (
            {"probes": [probe(TRIED[5], reserved=1200 * MIB, fits=False)]},
            "2 images of 544 x 384, did not fit when it was run.",
        ),
    ],
)
def test_reasons(changes, sentence):
    assert sentence in Page(page(outcome(**changes))).text


def test_reasons_of_the_plan_go_first():
    text = Page(page(outcome(plan=plan(reasons=["Because."])))).text
    assert "Because." in text
    assert "The goal is" not in text


def test_what_was_tried_stands_in_order_each_once_and_the_chosen_is_marked():
    rows = Page(page(outcome())).rows[1:]
    assert [row[0].split(".")[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert rows[1] == ["2. 2 images | 512 x 384", "1.56 GiB", "1.52 GiB", "0.0 %", "no", "none"]
    assert rows[3] == [
        "4. 2 images | 512 x 384 | → chosen",
        "900.0 MiB",
        "860.0 MiB",
        "17.0 %",
        "yes",
        "mixed | stem: full, stage1.0-1: selective",
    ]
    assert sum("chosen" in row[0] for row in rows) == 1


def test_a_plan_that_was_not_simulated_marks_nothing():
    shown = Page(page(outcome(tried=TRIED[:1], override="micro_batch_size=2")))
    assert "chosen" not in "".join(row[0] for row in shown.rows)
    assert "stage1.0-1: selective" in shown.text  # from the policies of all units


def test_probes_say_what_was_predicted_and_measured():
    shown = Page(page(measured()))
    assert shown.rows[-2:] == [
        ["2. 2 images | 512 x 384", "1.56 GiB", "–", "–", "–", "yes", "no"],
        ["4. 2 images | 512 x 384", "900.0 MiB", "800.0 MiB", "1.12", "1.50 s", "no", "yes"],
    ]


def test_retries_of_the_allocator_are_told():
    shown = Page(page(outcome(probes=[probe(TRIED[3], reserved=990 * MIB, fits=False, retries=3)])))
    assert shown.rows[-1][-2:] == ["no | 3 retries", "no"]


def test_rungs_say_what_follows():
    full = dict.fromkeys(UNITS, "full")
    first, second = plan(policies=full), plan(policies=full, micro_batch_size=1, accumulation_steps=4)
    shown = Page(page(outcome(plan=plan(rungs=[first, second]))))
    assert shown.rows[-2:] == [
        ["1. 2 images | 512 x 384", "2 micro-batches", "full"],
        ["2. 1 image | 512 x 384", "4 micro-batches", "the same"],
    ]


def test_nothing_tried_but_one_and_nothing_to_fall_back_to():
    shown = Page(page(outcome(tried=[TRIED[3]], goal=None)))
    assert "1 step simulated in 3.2 s; nothing was run." in shown.text
    assert "No plan was run" in shown.text
    assert "There is nothing to fall back to" in shown.text
    assert "Notes" not in shown.text
    assert len(shown.rows) == 2


def test_evaluation_and_notes():
    evaluation = {"batch_size": 4, "window": [256, 256], "reserved": 300 * MIB}
    text = Page(page(outcome(evaluation=evaluation, notes=["Not run on CUDA."]))).text
    assert "Evaluation, 4 windows of 256 x 256 pixels at once, reserves 300.0 MiB (predicted)." in text
    assert "Not run on CUDA." in text
    of_the_plan = plan(evaluation={"allocated": MIB, "reserved": 200 * MIB}, evaluation_batch_size=1)
    text = Page(page(outcome(plan=of_the_plan))).text
    assert "Evaluation, 1 window at once, reserves 200.0 MiB (predicted)." in text


def test_names_are_text_and_the_page_needs_nothing_else():
    hostile = "<script>alert('1')</script>"
    row = step(512, {hostile: hostile}, 900, 0.1)
    rungs = [plan(policies={hostile: "<b>", "stem": "none"})]
    text = page(
        outcome(
            tried=[row],
            probes=[probe(row, out_of_memory=True, fits=False)],
            plan=plan(precision=hostile, rungs=rungs, reasons=[hostile]),
            override=hostile,
            run_dir=hostile,
            device=hostile,
            notes=[hostile],
            evaluation={"batch_size": 1, "window": hostile, "reserved": 1},
        )
    )
    assert not {"script", "b", "link", "img", "iframe"} & {tag for tag, _ in Page(text).tags}
    assert "http" not in text
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower()
    assert 'name="viewport"' in text


def test_every_size_has_its_colour_and_the_rarest_share_one():
    tried = [step(32 * side, "none", 100 * side, 0) for side in range(2, 10)] + TRIED[:4]
    text = page(outcome(tried=tried))
    keys = dict(re.findall(r'<span class="key"><i class="(c\d+)"></i>([^<]+)</span>', text))
    assert len(keys) == 6
    assert keys["c0"] == "2 images of 512 x 384"
    assert keys["c7"] == "other sizes"


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


def test_the_table_in_a_terminal_of_80_columns():
    console = Console(width=80, file=io.StringIO())
    rungs = [plan(policies=dict.fromkeys(UNITS, "full"), micro_batch_size=1, accumulation_steps=4)]
    console.print(table(measured(plan=plan(rungs=rungs), notes=["[red]note"])))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0].startswith("2 images of 512 x 384 pixels in a micro-batch")
    # of each size one: the chosen, what fits with least recomputation, what needs least
    assert "2 images of 256 x 384 300.0 MiB 30.0 % yes full" in lines
    assert "2 images of 512 x 384 900.0 MiB 17.0 % chosen stem: full, stage1.0-1: s…" in lines
    assert "2 images of 544 x 384 1.03 GiB 30.0 % no full@2" in lines
    assert "2 images of 512 x 384 1.56 GiB – – – out of memory" in lines
    assert "2 images of 512 x 384 900.0 MiB 800.0 MiB 1.12 1.50 s yes" in lines
    assert "1. 1 image of 512 x 384 4 micro-batches full" in lines
    assert "[red]note" in lines
