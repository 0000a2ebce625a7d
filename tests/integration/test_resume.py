"""A stopped run that is resumed ends in the same bits as one that was not stopped."""

import json
from pathlib import Path

import pytest
import torch

STEPS = 6


def training(hires, shapes_overrides):
    """Trains into a directory, with all that a run has to remember."""

    def run(run_dir: Path, *more: str) -> Path:
        overrides = [o for o in shapes_overrides if not o.startswith(("run_dir=", "trainer.max_steps="))]
        settings = [
            f"trainer.max_steps={STEPS}",
            "trainer.checkpoint_every=1",
            "trainer.log_every=3",
            "trainer.ema_decay=0.9",
            "backbone.drop_path_rate=0.2",
            "augmentation=photometric",
            f"run_dir={run_dir}",
        ]
        code, _, error = hires("train", *overrides, *settings, *more)
        assert code == 0, error
        return run_dir

    return run


@pytest.fixture
def train(hires, shapes_overrides):
    return training(hires, shapes_overrides)


@pytest.fixture
def one_step(train, copied, tmp_path):
    """A run of one step."""
    run_dir = tmp_path / "one_step"
    return copied(run_dir, lambda: train(run_dir, "trainer.max_steps=1"))


def same(a: object, b: object, path: str = "") -> None:
    """Asserts that two checkpoints hold the same bits."""
    assert type(a) is type(b), path
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), path
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            same(a[key], b[key], f"{path}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), path
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{path}[{index}]")
    else:
        assert a == b, path


def records(run_dir: Path) -> list[dict]:
    times = ("time", "seconds_per_step", "images_per_second")
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in times} for line in lines]


class Stopped(Exception):
    pass


@pytest.mark.parametrize(
    ("stop", "workers", "precision"),
    [
        (3, 2, "32-true"),
        pytest.param(5, 0, "16-mixed", marks=pytest.mark.slow),
        *(pytest.param(*rest, "32-true", marks=pytest.mark.slow) for rest in ((3, 0), (1, 0), (1, 2), (5, 2))),
    ],
)
def test_resumed_run_equals_the_uninterrupted_one(train, hires, tmp_path, monkeypatch, workers, stop, precision):
    settings = [f"data.workers={workers}", f"trainer.precision={precision}"]
    whole = train(tmp_path / "whole", *settings)
    from hires.engine.trainer import Trainer

    after_step = Trainer._after_step

    def stop_after(self, batch_size):
        after_step(self, batch_size)
        if self.progress.step == stop:
            raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_after_step", stop_after)
        with pytest.raises(Stopped):
            train(tmp_path / "stopped", *settings)
    torch.rand(7)  # whatever happens in between must not matter
    code, _, error = hires("train", f"resume={tmp_path / 'stopped'}")
    assert code == 0, error
    for name in ("last", "best"):
        states = [
            torch.load(folder / "checkpoints" / f"{name}.pt", weights_only=True)
            for folder in (whole, tmp_path / "stopped")
        ]
        same(*states)
    assert records(whole) == records(tmp_path / "stopped")


def test_resume_drops_lines_after_the_checkpoint(train, hires, tmp_path):
    run_dir = train(tmp_path / "run", "trainer.max_steps=3")
    before = records(run_dir)
    with open(run_dir / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "step": 5, "loss": 1}\n{"kind": "tr')
    code, _, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    assert records(run_dir) == before


def test_resume_can_prolong_a_run(train, hires, tmp_path):
    run_dir = train(tmp_path / "run", "trainer.max_steps=2")
    code, _, error = hires("train", f"resume={run_dir}", "trainer.max_steps=4")
    assert code == 0, error
    assert json.loads((run_dir / "result.json").read_text())["steps"] == 4


def test_resume_auto_takes_the_newest_run(train, hires, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(tmp_path / "runs" / "default" / "a", "trainer.max_steps=1")
    train(tmp_path / "runs" / "default" / "b", "trainer.max_steps=1")
    code, out, error = hires("train", "resume=auto", "trainer.max_steps=2")
    assert code == 0, error
    steps = {
        name: json.loads((tmp_path / f"runs/default/{name}/result.json").read_text())["steps"] for name in "ab"
    }
    assert steps == {"a": 1, "b": 2}


def test_resume_auto_with_the_command_line_of_the_run(hires, shapes_overrides, tmp_path, monkeypatch):
    """What a job scheduler does: the same line again, groups included, until the run is done."""
    monkeypatch.chdir(tmp_path)
    overrides = [o for o in shapes_overrides if not o.startswith("run_dir=")]
    line = [*overrides, "optimizer=sgd", "augmentation=light", "resume=auto"]
    for steps in (2, 3):
        code, _, error = hires("train", *line, f"trainer.max_steps={steps}")
        assert code == 0, error
    (run_dir,) = (tmp_path / "runs" / "default").iterdir()
    assert json.loads((run_dir / "result.json").read_text())["steps"] == 3


def test_resume_of_a_finished_run_changes_nothing(train, hires, tmp_path):
    run_dir = train(tmp_path / "run", "trainer.max_steps=2")
    before = (run_dir / "result.json").read_bytes(), (run_dir / "checkpoints/last.pt").read_bytes()
    code, _, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    assert before == ((run_dir / "result.json").read_bytes(), (run_dir / "checkpoints/last.pt").read_bytes())


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("optimizer.lrr=1", "optimizer.lrr"),
        ("backbone=resnet50", "backbone.name"),
        ("data.channels=1", "data.channels"),
        ("model.norm=group", "model.norm"),
        ("seed=3", "seed"),
        ("nothing=1", "nothing"),
    ],
)
def test_resume_refuses_what_would_make_it_another_run(one_step, hires, override, key):
    run_dir = one_step
    code, _, error = hires("train", f"resume={run_dir}", override)
    assert code == 2
    assert error.strip().splitlines()[-1].startswith(f"{key}:")


def test_resume_takes_another_learning_rate(train, hires, tmp_path):
    more = ["scheduler=constant", "scheduler.warmup_steps=0", "optimizer.lr=0.001", "trainer.log_every=1"]
    run_dir = train(tmp_path / "run", "trainer.max_steps=2", *more)
    code, _, error = hires("train", f"resume={run_dir}", "trainer.max_steps=4", "optimizer.lr=0.0005")
    assert code == 0, error
    rates = [line["lr"] for line in records(run_dir) if line["kind"] == "train"]
    assert rates == pytest.approx([0.001, 0.001, 0.0005, 0.0005])


def test_average_begins_at_the_weights_of_the_checkpoint(train, hires, tmp_path):
    run_dir = train(tmp_path / "run", "trainer.max_steps=2", "trainer.ema_decay=null")
    resume = ["trainer.max_steps=3", "trainer.ema_decay=0.999", "optimizer.lr=0", "scheduler=cosine"]
    before = torch.load(run_dir / "checkpoints/last.pt", weights_only=True)["task"]
    code, _, error = hires("train", f"resume={run_dir}", *resume)
    assert code == 0, error
    average = torch.load(run_dir / "checkpoints/last.pt", weights_only=True)["ema"]
    for name, value in before.items():
        if "running" not in name and value.is_floating_point():
            torch.testing.assert_close(average[name], value, rtol=1e-4, atol=1e-5)


def test_resume_auto_stays_in_its_run_directory(train, hires, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(tmp_path / "runs" / "default" / "other", "trainer.max_steps=1")
    run_dir = train(tmp_path / "mine", "trainer.max_steps=2", "resume=auto")
    train(run_dir, "trainer.max_steps=3", "resume=auto")
    assert json.loads((run_dir / "result.json").read_text())["steps"] == 3


def test_lost_result_is_written_again(one_step, hires):
    run_dir = one_step
    metrics = json.loads((run_dir / "result.json").read_text())["metrics"]
    (run_dir / "result.json").unlink()
    (run_dir / "checkpoints" / ".last.pt.0123abcd").write_bytes(b"half")
    code, _, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    assert json.loads((run_dir / "result.json").read_text())["metrics"] == metrics
    assert {p.name for p in (run_dir / "checkpoints").iterdir()} == {"last.pt", "last.previous.pt", "best.pt"}
