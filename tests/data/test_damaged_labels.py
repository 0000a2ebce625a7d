"""Label files that are damaged at random: objects, or an error of ours; no hang, crash, or memory used up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = 10  # processes, one after the other


def read_damaged(folder: Path, first: int, count: int) -> dict[str, int]:
    """Reads files of `count` seeds from `first`; how many of each format were read, the others were refused."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("fuzz_labels.py")),
        str(folder),
        str(first),
        str(count),
    ]
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    at = (folder / "current").read_text() if (folder / "current").exists() else "the start"
    assert run.returncode == 0, f"ended with {run.returncode} at {at}: {run.stderr[-2000:]}"
    *problems, last = run.stdout.strip().splitlines()
    assert not problems, "\n".join(problems)[-5000:]
    return json.loads(last)


def test_some(tmp_path):
    read = read_damaged(tmp_path, 0, 315)
    assert 30 < sum(read.values()) < 200


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand(tmp_path, part):
    read = read_damaged(tmp_path, 1000 + 1000 * part, 1000)
    assert 70 < sum(read.values()) < 500, read
