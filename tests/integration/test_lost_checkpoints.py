"""Runs whose checkpoints or folders are gone: nothing is written over, and nobody waits for ever."""

import os
import shutil

import pytest

from hires.engine.trainer import Trainer
from tests.integration.test_resume import records


@pytest.fixture
def train(hires, shapes_overrides, tmp_path):
    """A training of two steps in the folder `run`, without what is given otherwise."""

    def run(*more):
        keys = [each.partition("=")[0] for each in ("trainer.max_steps=", "evaluation.every=", *more)]
        kept = [each for each in shapes_overrides if each.partition("=")[0] not in keys]
        code, output, error = hires("train", *kept, "trainer.max_steps=2", "trainer.log_every=1", *more)
        return code, output, error

    run.dir = tmp_path / "run"
    return run


@pytest.fixture
def run_dir(train, copied):
    def make():
        code, _, error = train()
        assert code == 0, error

    return copied(train.dir, make)


def refused(answer, code=1):
    """The only line of an answer that says no."""
    assert answer[0] == code, answer
    (line,) = answer[2].strip().splitlines()
    return line


def remove_last(run_dir):
    for path in (run_dir / "checkpoints").glob("last*.pt"):
        path.unlink()


@pytest.mark.parametrize("auto", [False, True], ids=["named", "auto"])
def test_a_run_that_has_lost_its_last_checkpoint_is_not_written_over(train, hires, run_dir, auto):
    remove_last(run_dir)
    best, metrics = run_dir / "checkpoints" / "best.pt", run_dir / "metrics.jsonl"
    before = best.read_bytes(), metrics.read_bytes()
    again = train("resume=auto") if auto else hires("train", f"resume={run_dir}")
    line = refused(again)
    assert line.startswith(f"{run_dir}: no checkpoint to go on from (last.pt, last.previous.pt)")
    assert f"has best.pt; init_from={run_dir}" in line
    best.unlink()
    assert "has metrics up to step 2" in refused(hires("train", f"resume={run_dir}"))
    assert metrics.read_bytes() == before[1]


def test_a_run_that_was_killed_before_its_first_save_starts_again(hires, run_dir):
    """It may have logged steps, which come again."""
    shutil.rmtree(run_dir / "checkpoints")
    (run_dir / "result.json").unlink()
    lines = (run_dir / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run_dir / "metrics.jsonl").write_text(lines[0])
    code, output, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    assert "has no checkpoint yet: starting at step 1" in " ".join(output.split())
    assert [line["step"] for line in records(run_dir)] == [1, 2, 2]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
@pytest.mark.parametrize("name", ["last", "last.previous"])
def test_what_is_no_file_is_refused_at_once(hires, run_dir, make, name):
    remove_last(run_dir)
    path = run_dir / "checkpoints" / f"{name}.pt"
    make(path)
    assert str(path) in refused(hires("train", f"resume={run_dir}"))


def test_a_run_that_is_moved_away_is_not_made_anew(train, monkeypatch):
    after_step, moved = Trainer._after_step, train.dir.with_name("moved")

    def move(self, batch_size):
        after_step(self, batch_size)
        if self.progress.step == 1:
            train.dir.rename(moved)

    monkeypatch.setattr(Trainer, "_after_step", move)
    code, _, error = train("trainer.checkpoint_every=1")
    assert code == 1
    assert f"{train.dir} is not the run's directory any more" in error.strip().splitlines()[-1]
    assert not (train.dir / "checkpoints").exists()
    assert (moved / "checkpoints" / "last.pt").exists()
