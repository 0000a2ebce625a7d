"""Figures in README and docs are those of docs/bench, and a document with others is named."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

BENCH = REPOSITORY / "tools" / "bench"
NEEDED = ("results.py", "tables.py", "figures.py")


def tables(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "bench" / "tables.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copied(tmp_path):
    """A checkout of what figures are made of, and README alone to show them."""
    folder = tmp_path / "tools" / "bench"
    folder.mkdir(parents=True)
    for path in (*(BENCH / name for name in NEEDED), *BENCH.glob("figures_*.py")):
        shutil.copy(path, folder)
    shutil.copytree(REPOSITORY / "docs" / "bench", tmp_path / "docs" / "bench")
    shutil.copy(REPOSITORY / "README.md", tmp_path)
    return tmp_path


def test_documents_have_the_figures_of_docs_bench():
    done = tables(REPOSITORY, "--check")
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr}\nafter a measurement, run: python tools/bench/tables.py"
    )


def test_what_was_measured_anew_comes_into_the_document(copied):
    path, before = copied / "docs" / "bench" / "train_step.json", (copied / "README.md").read_text()
    path.write_text(json.dumps({**json.loads(path.read_text()), "ratio": 7.531}))
    done = tables(copied, "--check")
    assert done.returncode == 1
    assert "README.md: loops" in done.stderr.splitlines()
    assert (copied / "README.md").read_text() == before  # a check writes nothing
    assert tables(copied).returncode == 0
    after = (copied / "README.md").read_text()
    changed = [new for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert len(changed) == 1
    assert "| 7.531 |" in changed[0]
    assert tables(copied, "--check").returncode == 0


def test_what_was_not_measured_is_not_made_up(copied):
    (copied / "docs" / "bench" / "startup.json").unlink()
    rows = json.loads((copied / "docs" / "bench" / "trainings.json").read_text())
    del rows["runs"]["demo, resized"]
    (copied / "docs" / "bench" / "trainings.json").write_text(json.dumps(rows))
    assert tables(copied).returncode == 0
    text = (copied / "README.md").read_text()
    assert "<!-- figures: startup -->\nnot run\n<!-- /figures -->" in text
    assert "| whole images resized to 512 | not run | not run | not run | not run | |" in text


def shown(root: Path, name: str, content: object, mark: str = "") -> str:
    """What a mark says when a JSON has that content."""
    (root / "docs" / "bench" / f"{name}.json").write_text(json.dumps(content))
    (root / "README.md").write_text(f"It is\n<!-- figures: {mark or name} -->\n?\n<!-- /figures -->\n")
    done = tables(root)
    assert done.returncode == 0, done.stderr
    return (root / "README.md").read_text()


def test_cases_that_are_missing_are_said_not_to_be_run(copied):
    found = {
        way: {"side": side, "pixels": side**2, "seconds": seconds}
        for way, side, seconds in (("all kept", 1000, 2.0), ("timm's flag", 1200, 3.6))
    }
    text = shown(copied, "pixels_cpu", {"budget": 2**31, "cases": {"U-Net, resnet50": found}})
    absent = " ".join(["not run |"] * 4)
    assert f"| all kept | 1000² | 1.00 | 0.69 | 1.00 | {absent}" in text
    assert f"| timm's flag | 1200² | 1.44 | 1.00 | 1.25 | {absent}" in text
    assert f"| the planner | {absent} {absent}" in text
    assert "*Within 2 GiB. Day not recorded.*" in text
    text = shown(copied, "planner_time", {"backbones": {}})
    assert "| resnet50 | not run | | | |" in text


def test_plans_that_ran_out_of_memory_show(copied):
    case = {"gib": 2, "model": "fcos", "backbone": "resnet18", "goal": "batch", "micro_batch_size": 4}
    case |= {"image_size": [256, 256], "search_seconds": 7.2, "date": "2026-12-24", "next": None}
    failed = {**case, "steps": {"survived": False, "reserved": None}}
    after = {"shape": {"micro_batch": 5, "height": 256, "width": 256}, "predicted": 2**31, "failed": False}
    fine = {**case, "gib": 4, "steps": {"survived": True, "reserved": 3 * 2**30}, "next": after}
    text = shown(copied, "autobatch", {"cases": [failed, fine]})
    assert "| 2 GiB | FCOS, resnet18 | batch | 4 x 256 x 256 | | **yes** | none | 7 s |" in text
    assert "| 75.0% | no | 5 x 256 x 256: predicted 2.00 GiB, **gets through** | 7 s |" in text
    assert text.count("not run") == 16
    assert "*Made 2026-12-24.*" in text
    assert "25.0%" in shown(copied, "autobatch", {"cases": [failed, fine]}, "autobatch_unused")
    counts = shown(copied, "autobatch", {"cases": [failed, fine]}, "autobatch_counts")
    assert "2 of 18 cases were run: 1 trained within the limit" in counts
    assert "shape failed in 0 of 1" in counts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It took <!-- figures: saving.share:.2% -->0.1% of the time.\n", "not closed"),
        ("It took <!-- figures:saving.share:.2% -->0.1%<!-- /figures -->.\n", "not closed"),
        ("It took\n<!-- figures: saving.share:.2% -->0.1%<!-- /figures -->.\n", "begins a line"),
    ],
)
def test_a_mark_that_markdown_or_this_does_not_understand_is_refused(copied, text, said):
    (copied / "README.md").write_text(text)
    done = tables(copied, "--check")
    assert done.returncode == 1
    assert said in done.stderr


def test_one_value_in_a_sentence(copied):
    content = {"share": 0.012345, "checkpoint_every": 100}
    (copied / "docs" / "bench" / "saving.json").write_text(json.dumps(content))
    mark = "It took <!-- figures: {} -->?<!-- /figures -->.\n"
    names = ("saving.share:.2%", "saving.checkpoint_every:d", "saving.nothing:d")
    (copied / "README.md").write_text("".join(map(mark.format, names)))
    assert tables(copied).returncode == 0
    shown = (copied / "README.md").read_text().splitlines()
    assert [line.partition("-->")[2].partition("<!--")[0] for line in shown] == ["1.23%", "100", "not run"]


def test_every_measurement_is_shown():
    """By a module of figures, or by a mark that names a value of it."""
    shown = "".join(path.read_text() for path in BENCH.glob("figures_*.py"))
    shown += "".join(path.read_text() for path in [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
    shown = shown.replace('f"activation_checkpointing{end}"', '"activation_checkpointing_150_classes"')
    names = [path.stem for path in (REPOSITORY / "docs" / "bench").glob("*.json")]
    assert len(names) > 10
    assert [name for name in names if f'"{name}"' not in shown and f"figures: {name}." not in shown] == []
