"""Finished runs side by side, from what compare.json holds."""

import io
import re

from rich.console import Console

from hires.visualize.run_comparison import page, table, verdict

PEAKS = {"predicted": {"allocated": None, "reserved": None}, "allocated": None, "reserved": 3 * 2**29}


def run(value=0.5, metric="mIoU", steps=40, **changes):
    return {
        "path": f"/runs/<i>/{value}",
        "finished": True,
        "steps": steps,
        "best": {"metric": metric, "value": value, "step": steps // 2},
        "metrics": {metric: value, f"IoU/<b>road{'' if metric == 'mIoU' else metric}": 0.25},
        "peak_bytes": PEAKS,
        "seconds_per_step": 0.5,
        "images_per_second": 8.0,
        "curves": {
            "loss": [[10, 2.0], [20, 1.0], [steps, 0.5]],
            "loss/dice": [[10, 2.0]],
            "lr": [[10, 0.1], [20, 0.1]],
            metric: [[20, value], [steps, value]],
        },
        **changes,
    }


def outcome(**runs):
    found = runs or {"a": run(), "b<br>": run(0.75, steps=90, seconds_per_step=None), "c": run(0.1)}
    found.setdefault("c", run(0.25, finished=False, peak_bytes={**PEAKS, "reserved": None}))
    return {"runs": found, "differences": {"optimizer.lr": dict.fromkeys(found, "<u>1")}}


def test_names_are_text():
    text = page(outcome())
    for tag in ("<br>", "<i>", "<b>", "<u>", "http", "<script"):
        assert tag not in text
    hostile = "\" onload='x' <script>"
    text = page(
        {"runs": {hostile: run(), "b": run(0.75)}, "differences": {hostile: {hostile: hostile, "b": hostile}}}
    )
    assert "<script" not in text
    assert '" onload' not in text
    assert "onload='" not in text
    assert not re.search(r"(src|href|url|@import)\b\s*[=(]", text)


def test_the_best_is_named():
    assert verdict({"a": run(0.5), "b": run(0.75)}) == "b is best: mIoU 0.75, before a with 0.5."
    assert verdict({"a": run(0.5), "b": run(0.5)}) == "Equally good by mIoU: 0.5."
    assert "no best value of one metric" in verdict({"a": run(0.5), "b": run(0.9, "AP")})
    assert "no best value of one metric" in verdict({"a": run(0.5), "b": run(None)})


def test_runs_with_other_metrics_and_lengths_have_charts_in_their_colours():
    text = page(outcome(a=run(), c=run(0.25, "AP", steps=200)))
    assert text.count("<h3>mIoU</h3>") == text.count("<h3>AP</h3>") == 1
    (chart,) = [part for part in text.split("<h3>") if part.startswith("AP</h3>")]
    assert 'class="line c1"' in chart
    assert 'class="line c0"' not in chart


def test_a_run_without_anything():
    nothing = run(None, None, metrics={}, curves={}, peak_bytes={**PEAKS, "reserved": None}, seconds_per_step=None)
    text = page({"runs": {"a": nothing, "b": nothing}, "differences": {}})
    assert "The same settings." in text


def test_the_table_in_a_terminal():
    console = Console(width=80, file=io.StringIO())
    console.print(table(outcome(**{"[red]x": run(), "c": run(None, None)})))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[1] == ["[red]x", "mIoU", "0.5", "20", "40", "500", "ms", "1.50", "GiB"]
    assert lines[2][:4] == ["c", "–", "–", "–"]
