"""A training on a disk that gets full goes on; what it ends with says what is on disk."""

import json
import resource
import shutil

import pytest
import torch
import yaml

from hires.engine.files import whole_file
from hires.interfaces import MemoryPlan
from tests.files import files_up_to
from tests.integration.test_resume import records

SMALL = 1000  # bytes: no file that a training writes is as small


@pytest.fixture
def train(hires, shapes_overrides, monkeypatch):
    """Trains; `changes` are called after the steps that are their keys."""
    from hires.engine.trainer import Trainer

    overrides = [o for o in shapes_overrides if not o.startswith(("trainer.max_steps=", "evaluation.every="))]
    settings = ["trainer.max_steps=6", "trainer.log_every=1", "trainer.checkpoint_every=1", "evaluation.every=2"]
    after_step = Trainer._after_step

    def run(changes, *more):
        def with_changes(self, *arguments):
            after_step(self, *arguments)
            changes.get(self.progress.step, lambda: None)()

        with monkeypatch.context() as patched:
            patched.setattr(Trainer, "_after_step", with_changes)
            return hires("train", *overrides, *settings, *more)

    return run


@pytest.fixture
def limit():
    """Sets the largest size of files, until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size=before[0]: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def step_of(run_dir, name="last"):
    return torch.load(run_dir / "checkpoints" / f"{name}.pt", weights_only=True)["progress"]["step"]


def test_full_for_a_while(train, limit, tmp_path):
    code, _, error = train({2: lambda: limit(SMALL), 5: limit})
    run_dir = tmp_path / "run"
    assert code == 0, error
    assert "Traceback" not in error
    assert (step_of(run_dir), step_of(run_dir, "last.previous")) == (6, 6)  # before and after its evaluation
    assert [record["step"] for record in records(run_dir)] == [1, 2, 2, 3, 4, 4, 5, 6, 6]
    log = (run_dir / "train.log").read_text()
    assert log.count("the next save tries again") == 4  # of steps 3, 4, 4 and 5
    assert "3 steps are not on disk" in log
    assert len((run_dir / "csv" / "metrics.csv").read_text().splitlines()) == 10


def test_full_until_the_end(train, hires, limit, tmp_path):
    code, _, error = train({3: lambda: limit(SMALL)})
    limit()
    run_dir = tmp_path / "run"
    assert code == 1
    assert "Traceback" not in error
    last = error.strip().splitlines()[-1]
    assert last.startswith(f"{run_dir}/checkpoints/last.pt")
    assert "File too large" in last
    assert "step 6 are not on disk; last.pt is still that of step 3" in last
    assert step_of(run_dir) == 3
    assert not (run_dir / "result.json").exists()
    code, _, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    assert [record["step"] for record in records(run_dir)] == [1, 2, 2, 3, 4, 4, 5, 6, 6]


def test_full_from_the_beginning(train, limit, tmp_path):
    with files_up_to(SMALL):
        code, _, error = train({})
    assert code == 1
    assert "Traceback" not in error
    assert error.strip().splitlines()[-1].endswith("what was there before is unchanged")


def test_run_directory_that_is_gone(train, tmp_path):
    """As on a file system that was taken away."""
    run_dir = tmp_path / "run"

    def remove():
        shutil.rmtree(run_dir)
        run_dir.write_text("")

    code, _, error = train({3: remove})
    assert code == 1
    assert "Traceback" not in error
    assert "is not the run's directory any more" in error.strip().splitlines()[-1]


def test_result_that_cannot_be_written_is_written_by_resuming(train, hires, tmp_path):
    run_dir = tmp_path / "run"
    code, _, error = train({5: (run_dir / "result.json").mkdir})
    assert code == 1
    assert error.strip().splitlines()[-1].startswith(f"{run_dir}/result.json: cannot be written (Is a directory)")
    (run_dir / "result.json").rmdir()
    code, _, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    assert json.loads((run_dir / "result.json").read_text())["steps"] == 6


def test_plan_that_cannot_be_written_does_not_end_a_training(tmp_path, caplog):
    from hires.preparation import keep_plan

    plan = MemoryPlan(2, 1, (64, 64), "32-true")
    (tmp_path / "plan.yaml").mkdir()
    keep_plan(tmp_path, plan)
    assert "plan.yaml: cannot be written" in caplog.text
    (tmp_path / "plan.yaml").rmdir()
    keep_plan(tmp_path, plan)
    assert yaml.safe_load((tmp_path / "plan.yaml").read_text())["micro_batch_size"] == 2


def test_a_file_that_cannot_grow_leaves_nothing_beside(tmp_path):
    with files_up_to(10), pytest.raises(OSError, match="large"), whole_file(tmp_path / "a") as file:
        file.write(bytes(20))
    assert not list(tmp_path.iterdir())
