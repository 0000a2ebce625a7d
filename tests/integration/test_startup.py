"""What one waits for before anything happens: commands import what they need, and torch is imported quickly.

Times are measured by tools/bench/startup.py; here it is held what they follow from.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "numpy",
    "cv2",
    "timm",
    "torchvision",
    "albumentations",
    "scipy",
    "lightning_fabric",
    "rich",
    "pandas",
)

RUN = """
import atexit, gc, json, sys
from hires.cli import main

def tell():
    with open("facts.json", "w") as file:
        facts = {"modules": sorted(sys.modules), "frozen": gc.get_freeze_count(), "enabled": gc.isenabled()}
        json.dump(facts, file)

atexit.register(tell)
sys.exit(main())
"""


def facts(folder: Path, *arguments: str, **environment: str) -> dict[str, object]:
    """What a process that ran `hires ...` has imported, and what its garbage collector is to look at."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    return json.loads((folder / "facts.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--help"], ""),
        (["train", "--help"], ""),
        (["train", "experiment=demo", "--cfg", "job"], ""),
        (["-sc", "query=bash"], "hires train model=u"),
    ],
)
def test_help_and_completion_import_nothing_that_takes_long(
    tmp_path: Path, arguments: list[str], line: str
) -> None:
    modules = facts(tmp_path, *arguments, COMP_LINE=line)["modules"]
    assert [name for name in HEAVY if name in modules] == []


@pytest.mark.slow
def test_a_training_imports_no_library_of_other_commands(tmp_path: Path, shapes_overrides: list[str]) -> None:
    """Nor does Python look for garbage among what it has imported, neither then nor later."""
    found = facts(tmp_path, "train", *shapes_overrides, "logger=none")
    others = ("matplotlib", "tensorboard", "tensorflow", "onnx", "pycocotools", "IPython", "pandas", "sklearn")
    assert [name for name in others if name in found["modules"]] == []
    assert found["frozen"] > 100_000
    assert found["enabled"]


def test_what_is_there_before_a_command_is_collected_later(hires, shapes_overrides) -> None:
    """In a program that has imported torch already, garbage may be among its objects."""
    import gc

    frozen = gc.get_freeze_count()
    code, _, error = hires("train", *shapes_overrides, "trainer.max_steps=1")
    assert code == 0, error
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_help_of_which_only_the_beginning_is_read() -> None:
    command = [sys.executable, "-c", "import sys; from hires.cli import main; sys.exit(main())", "train", "--help"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, text=True, **pipes
    ) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)
