"""A training whose loss is not finite for a while: what it writes about that, and how it ends when it stays so."""

import json

import pytest
import torch

from hires.engine import step as steps


@pytest.fixture
def train(hires, shapes_overrides, tmp_path, monkeypatch):
    """Trains; the losses of some steps are NaN."""

    def run(*more, bad=(), run_dir="run", resume=False):
        accumulate, done = steps.accumulate, []
        start = 2 if resume else 0

        def poisoned(*args, **kwargs):
            done.append(1)
            losses = accumulate(*args, **kwargs)
            return (
                {name: loss * float("nan") for name, loss in losses.items()}
                if start + len(done) in bad
                else losses
            )

        with monkeypatch.context() as patched:
            patched.setattr(steps, "accumulate", poisoned)
            overrides = [o for o in shapes_overrides if not o.startswith("run_dir=")]
            where = [f"resume={tmp_path / run_dir}"] if resume else [*overrides, f"run_dir={tmp_path / run_dir}"]
            code, out, error = hires("train", *where, *more)
        return code, out, error, tmp_path / run_dir

    return run


def lines(run_dir):
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == "train"]


def weights(run_dir):
    return torch.load(run_dir / "checkpoints" / "last.pt", weights_only=True)


def test_skipped_steps_are_counted_and_resumed(train):
    more = ("trainer.log_every=1", "trainer.ema_decay=0.9", "trainer.max_skipped=2")
    code, out, error, run_dir = train(*more, bad=(2, 3))
    assert code == 0, error
    assert [line["skipped"] for line in lines(run_dir)] == [0, 1, 2, 2]
    assert [line["loss"] is None for line in lines(run_dir)] == [False, True, True, False]
    assert json.loads((run_dir / "result.json").read_text())["skipped"] == 2
    told = [line for line in (run_dir / "train.log").read_text().splitlines() if "is skipped" in line]
    assert len(told) == 2
    assert "step 2: loss " in told[0]
    assert "Images of the batch: images/" in told[0]
    state = weights(run_dir)
    for values in (state["task"], state["ema"]):
        assert all(value.isfinite().all() for value in values.values())
    train(*more, "trainer.max_steps=2", bad=(2,), run_dir="other")
    code, out, error, other = train("trainer.max_steps=4", bad=(3,), run_dir="other", resume=True)
    assert code == 0, error
    assert weights(other)["progress"]["skipped"] == 2
    assert weights(other)["progress"]["first_skip"].startswith("step 2 (loss")
    code, out, error, _ = train(
        "trainer.max_steps=5", "trainer.max_skipped=1", bad=(3,), run_dir="other", resume=True
    )
    assert code == 0, error  # one after a finite one is no second in a row


def test_a_training_that_diverges_ends_in_one_line(hires, shapes_overrides, tmp_path):
    more = ("optimizer.lr=1e30", "scheduler=constant", "scheduler.warmup_steps=0", "trainer.max_steps=40")
    code, out, error = hires("train", *shapes_overrides, *more, "trainer.max_skipped=3")
    assert code == 1
    line = error.strip().splitlines()[-1]
    assert (
        "the training diverged: 4 updates had to be skipped lately, trainer.max_skipped is 3; at first step"
        in line
    )
    assert "the learning rate is 1e+30, trainer.precision 32-true" in line
    assert "a lower optimizer.lr" in line
    assert "Traceback" not in error
