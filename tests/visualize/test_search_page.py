"""What is shown of a search for a plan, from what search.json holds."""

import io
import re

import pytest
from rich.console import Console

from hires.visualize.search import page, table
from tests.visualize.searches import MIB, TRIED, UNITS, Page, measured, outcome, plan, probe, step


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
