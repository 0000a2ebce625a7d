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
