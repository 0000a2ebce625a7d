"""Training and evaluating through the command line, on a small data set."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml


@pytest.fixture
def run(hires, shapes_overrides, tmp_path):
    def train(*more: str) -> Path:
        code, _, error = hires("train", *shapes_overrides, *more)
        assert code == 0, error
        return tmp_path / "run"

    return train


def lines(run_dir: Path, kind: str) -> list[dict]:
    records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == kind]


def test_run_directory_holds_what_the_docs_say(run):
    run_dir = run()
    files = {str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file()}
    wanted = {"config.yaml", "plan.yaml", "metrics.jsonl", "result.json", "train.log"}
    assert wanted | {"checkpoints/last.pt", "checkpoints/best.pt"} <= files
    assert any("events.out.tfevents" in name for name in files)
    assert any(name.endswith("metrics.csv") for name in files)
    result = json.loads((run_dir / "result.json").read_text())
    assert set(result["metrics"]) >= {"mIoU", "IoU/disc", "Dice/bar", "accuracy", "majority_mIoU"}
    assert set(result) >= {"command", "run_dir", "metrics", "peak_bytes", "seconds_per_step", "images_per_second"}
    assert set(result["peak_bytes"]) == {"predicted", "allocated", "reserved"}
    assert result["plan"] == yaml.safe_load((run_dir / "plan.yaml").read_text())
    assert [record["step"] for record in lines(run_dir, "train")] == [2, 4]
    assert lines(run_dir, "evaluate")[0]["mIoU"] == result["metrics"]["mIoU"]


def test_evaluate_repeats_the_evaluation_of_the_training(run, hires):
    run_dir = run("trainer.ema_decay=0.9")
    code, out, error = hires("evaluate", f"run={run_dir}", "checkpoint=last")
    assert code == 0, error
    trained = json.loads((run_dir / "result.json").read_text())
    again = json.loads((run_dir / "evaluate" / "val-last" / "result.json").read_text())
    assert again["metrics"] == trained["metrics"]
    assert again["split"] == "val"
    assert again["checkpoint"].endswith("last.pt")
    table = (run_dir / "evaluate" / "val-last" / "classes.csv").read_text().splitlines()
    assert table[0] == "class,IoU,Dice"
    assert [row.split(",")[0] for row in table[1:]] == ["background", "disc", "bar"]
    assert "mIoU" in out


def test_evaluate_with_other_views(run, hires):
    run_dir = run()
    code, _, error = hires("evaluate", f"run={run_dir}", "evaluation.fit=resize")
    assert code == 0, error
    code, _, error = hires("evaluate", f"run={run_dir}", "evaluation.window=[96,64]", "evaluation.batch_size=3")
    assert code == 0, error


def test_training_learns(run):
    """Sixty steps of a tiny network find most of the discs and bars."""
    run_dir = run("trainer.max_steps=60", "batch_size=8", "optimizer.lr=0.005", "model.full_resolution_skip=true")
    metrics = json.loads((run_dir / "result.json").read_text())["metrics"]
    assert metrics["mIoU"] > metrics["majority_mIoU"] + 0.3


def test_whole_images_resized(run):
    run_dir = run("data.fit=resize", "evaluation.every=1ep")
    steps = [record["step"] for record in lines(run_dir, "evaluate")]
    assert steps == [2, 4]  # five images make two batches of four


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision(run, precision):
    run_dir = run(f"trainer.precision={precision}", "micro_batch_size=3", "trainer.clip_grad_norm=1.0")
    losses = [record["loss"] for record in lines(run_dir, "train")]
    assert len(losses) == 2
    assert all(0 < loss < 10 for loss in losses)


def test_other_norms_and_frozen_stages(run):
    run_dir = run("model.norm=group", "backbone.freeze=[stem,stage1]", "optimizer.layer_decay=0.8")
    state = torch.load(run_dir / "checkpoints" / "last.pt", weights_only=True)
    assert not any("running_mean" in name for name in state["task"])


def test_windows_that_are_not_square(run):
    run_dir = run("image_size=[64,96]", "augmentation=photometric")
    assert json.loads((run_dir / "result.json").read_text())["plan"]["image_size"] == [64, 96]


def test_half_precision_on_the_cpu_is_scaled_float16():
    """Fabric would silently take bfloat16 for the name 16-mixed."""
    from hires.engine.fabric import make_fabric

    fabric = make_fabric("cpu", "16-mixed")
    assert fabric.strategy.precision.scaler.is_enabled()
    with fabric.autocast():
        assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == torch.float16


def test_init_from_another_class_count(run, hires, shapes_overrides, tmp_path):
    first = run()
    more = ["~data.classes.bar", "data.unlisted=ignore", f"init_from={first}", f"run_dir={tmp_path / 'second'}"]
    code, _, error = hires("train", *shapes_overrides, *more)
    assert code == 0, error
    assert "left as initialised: network.head.0.bias" in (tmp_path / "second" / "train.log").read_text()


def test_no_validation_split(run):
    run_dir = run("data.splits={val: null}")
    assert json.loads((run_dir / "result.json").read_text())["metrics"] == {}
    assert (run_dir / "checkpoints" / "last.pt").exists()


def test_patience_stops_early(run):
    run_dir = run("trainer.max_steps=40", "evaluation.every=1", "trainer.patience=2", "optimizer.lr=0")
    result = json.loads((run_dir / "result.json").read_text())
    assert result["steps"] < 40
    assert result["best"]["value"] is not None


def test_a_run_directory_is_not_overwritten(run, hires, shapes_overrides):
    run_dir = run()
    code, _, error = hires("train", *shapes_overrides)
    assert code == 2
    assert f"run_dir: {run_dir} holds a run already" in error


def test_default_run_directories_do_not_collide(hires, shapes_overrides, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = [o for o in shapes_overrides if not o.startswith("run_dir=")]
    for _ in range(2):
        code, _, error = hires("train", *overrides, "trainer.max_steps=1")
        assert code == 0, error
    assert len(list((tmp_path / "runs" / "default").iterdir())) == 2


def test_sweep(hires, shapes_overrides, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = [o for o in shapes_overrides if not o.startswith("run_dir=")]
    code, _, error = hires("train", "-m", *overrides, "trainer.max_steps=1,2")
    assert code == 0, error
    (sweep,) = (tmp_path / "runs" / "sweeps").iterdir()
    assert sorted(path.name for path in sweep.iterdir()) == ["0", "1", "multirun.yaml"]
    results = [json.loads((sweep / job / "result.json").read_text()) for job in ("0", "1")]
    assert [result["steps"] for result in results] == [1, 2]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_training_gives_the_same_losses(run, hires, shapes_overrides, tmp_path):
    eager = [line["loss"] for line in lines(run("trainer.log_every=1"), "train")]
    more = ["trainer.log_every=1", "trainer.compile=true", f"run_dir={tmp_path / 'compiled'}"]
    code, _, error = hires("train", *shapes_overrides, *more)
    assert code == 0, error
    compiled = tmp_path / "compiled"
    assert [line["loss"] for line in lines(compiled, "train")] == pytest.approx(eager, rel=1e-3)
    states = [
        torch.load(d / "checkpoints" / "last.pt", weights_only=True)["task"] for d in (tmp_path / "run", compiled)
    ]
    assert states[0].keys() == states[1].keys()


def test_accumulation_is_written_into_the_plan(run):
    run_dir = run("micro_batch_size=3")
    plan = json.loads((run_dir / "result.json").read_text())["plan"]
    assert plan["micro_batch_size"] == 3
    assert plan["accumulation_steps"] == 2


def test_a_micro_batch_cannot_exceed_the_batch(hires, shapes_overrides):
    code, _, error = hires("train", *shapes_overrides, "micro_batch_size=5")
    assert code == 2
    assert "micro_batch_size: got 5, allowed: at most batch_size, 4" in error


MISTAKES = [
    ("image_size=100", "image_size: got [100, 100], allowed: multiples of 32, for example [96, 96]"),
    ("evaluation.window=[64,90]", "evaluation.window: got [64, 90]"),
    ("evaluation.metric=mIou", "evaluation.metric: got mIou; did you mean mIoU? allowed: mIoU, accuracy"),
    ("model.num_classes=7", "model.num_classes: got 7, but the data has 3"),
    (
        "evaluation.every=2epochs",
        "evaluation.every: got '2epochs', allowed: steps (500), epochs (1ep), or null",
    ),
    ("backbone.in_channels=4", "backbone.in_channels: got 4, but data.channels is 3"),
    ("task.loss.class_weights=[1,2]", "task.loss.class_weights: 2 weights for 3 classes"),
    ("backbone.name=resnet81", "backbone.name: timm has no model 'resnet81'; did you mean"),
]


@pytest.mark.parametrize(("override", "message"), MISTAKES)
def test_mistakes_are_told_before_there_is_a_run(hires, shapes_overrides, tmp_path, override, message):
    code, _, error = hires("train", *shapes_overrides, override)
    assert code == 2
    assert message in error
    assert not (tmp_path / "run" / "config.yaml").exists()


@pytest.mark.parametrize(
    "override",
    [pytest.param(each, marks=[] if each == MISTAKES[2][0] else pytest.mark.slow) for each, _ in MISTAKES],
)
def test_a_run_that_was_refused_may_begin_again(hires, shapes_overrides, override):
    """In the same run_dir, put right."""
    assert hires("train", *shapes_overrides, override)[0] == 2
    code, _, error = hires("train", *shapes_overrides)
    assert code == 0, error
