"""A stopped run that is resumed ends in the same bits as one that was not stopped."""

import json
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from hires.interfaces import ConfigError
from hires.recipe import read_recipe

STEPS = 6


@pytest.fixture
def train(hires, shapes_overrides):
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
        (3, 0, "32-true"),
        (3, 2, "32-true"),
        (1, 2, "32-true"),
        (5, 0, "16-mixed"),
        *(pytest.param(*rest, "32-true", marks=pytest.mark.slow) for rest in ((1, 0), (5, 2))),
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
def test_resume_refuses_what_would_make_it_another_run(train, hires, tmp_path, override, key):
    run_dir = train(tmp_path / "run", "trainer.max_steps=1")
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


def test_lost_result_is_written_again(train, hires, tmp_path):
    run_dir = train(tmp_path / "run", "trainer.max_steps=1")
    metrics = json.loads((run_dir / "result.json").read_text())["metrics"]
    (run_dir / "result.json").unlink()
    (run_dir / "checkpoints" / ".last.pt.0123abcd").write_bytes(b"half")
    code, _, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    assert json.loads((run_dir / "result.json").read_text())["metrics"] == metrics
    assert {p.name for p in (run_dir / "checkpoints").iterdir()} == {"last.pt", "last.previous.pt", "best.pt"}


def test_precision_that_the_checkpoint_does_not_fit(train, hires, tmp_path):
    run_dir = train(tmp_path / "run", "trainer.max_steps=1")
    code, _, error = hires("train", f"resume={run_dir}", "trainer.max_steps=2", "trainer.precision=16-mixed")
    assert code == 1
    assert "its precision does not fit this configuration" in error


def test_resume_of_what_is_no_run(hires, tmp_path):
    code, _, error = hires("train", f"resume={tmp_path}")
    assert code == 1
    assert "not a run directory" in error


def test_broken_checkpoint_is_told_and_the_one_before_taken(train, hires, tmp_path):
    """The lines of metrics.jsonl are cut to the checkpoint that is taken, not to the broken one."""
    run_dir = train(tmp_path / "run", "trainer.max_steps=3", "trainer.log_every=1", "evaluation.every=3")
    before = records(run_dir)
    path = run_dir / "checkpoints" / "last.pt"
    path.write_bytes(path.read_bytes()[:2000])
    code, out, error = hires("train", f"resume={run_dir}")
    assert code == 0, error
    (told,) = [line for line in out.splitlines() if "not a whole checkpoint" in line]
    assert told.startswith(f"{path}: not a whole checkpoint")
    assert "going on from the one before, last.previous.pt" in told
    assert records(run_dir) == before
    assert [line["kind"] for line in before] == ["train"] * 3 + ["evaluate"]


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint", None])
def test_broken_checkpoints_are_refused_in_one_line(train, hires, tmp_path, damage):
    run_dir = train(tmp_path / "run", "trainer.max_steps=1")
    paths = [run_dir / "checkpoints" / f"{name}.pt" for name in ("last", "last.previous", "best")]
    for path in paths:
        path.write_bytes(path.read_bytes()[:2000] if damage is None else damage)
    code, _, error = hires("train", f"resume={run_dir}", "trainer.max_steps=2")
    assert code == 1
    line = error.strip().splitlines()[-1]
    assert line.startswith(f"{paths[0]}: not a whole checkpoint")
    assert f"{paths[1]}: not a whole checkpoint" in line
    for name in ("last", "best", str(paths[1])):
        code, _, error = hires("evaluate", f"run={run_dir}", f"checkpoint={name}")
        assert code == 1
        assert ": not a whole checkpoint" in error.strip().splitlines()[-1]
    code, _, error = hires("train", f"init_from={run_dir}", f"run_dir={tmp_path / 'other'}", *_data_of(run_dir))
    assert code == 1
    assert error.strip().splitlines()[-1].startswith(f"{paths[2]}: not a whole checkpoint")


def _data_of(run_dir: Path) -> list[str]:
    """Overrides by which another training has the data and the model of a run."""
    root = OmegaConf.load(run_dir / "config.yaml").data.root
    return [
        "data=mask_folder",
        f"data.root={root}",
        "data.images=images/*.png",
        "data.masks=masks/*.png",
        "data.classes={background: 0, disc: 100, bar: 200}",
        "data.workers=0",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "image_size=64",
        "trainer.accelerator=cpu",
    ]


def _evil(folder: Path, **more) -> dict:
    return {"_target_": "os.mkdir", "_args_": [str(folder)], **more}


CRAFTED = {
    "a group": ("augmentation", _evil),
    "a part of a list": ("augmentation.transforms", lambda folder: [_evil(folder)]),
    "an argument": ("optimizer.arguments", lambda folder: {"betas": _evil(folder)}),
    "deeper": ("scheduler.arguments", lambda folder: {"a": {"b": [{"c": _evil(folder)}]}}),
    "a partial": ("augmentation.transforms", lambda folder: [_evil(folder, _partial_=True)]),
    "by way of a module of hires": ("task", lambda folder: {**_evil(folder), "_target_": "hires.runs.os.mkdir"}),
    "by way of a text": ("task", lambda folder: {**_evil(folder), "_target_": "${oc.decode:os.mkdir}"}),
    "a logger": ("logger.csv", _evil),
    "beside what is read": ("extra", _evil),
}
NOT_READ = ("a logger", "beside what is read")
"""By `read_recipe`."""


def crafted_config(run_dir: Path, kind: str, folder: Path) -> DictConfig:
    """The configuration of a run, with a target that would make the folder."""
    key, crafted = CRAFTED[kind]
    cfg = OmegaConf.load(run_dir / "config.yaml")
    OmegaConf.update(cfg, key, crafted(folder), merge=False, force_add=True)
    cfg.allow_targets = ["os."]
    return cfg


def test_config_of_a_stranger_runs_nothing(train, hires, tmp_path):
    run_dir, broken_in = train(tmp_path / "run", "trainer.max_steps=1"), tmp_path / "broken_in"
    for kind in [kind for kind in CRAFTED if kind not in NOT_READ]:
        with pytest.raises(ConfigError, match=f"^{CRAFTED[kind][0]}.*is not allowed"):
            read_recipe(crafted_config(run_dir, kind, broken_in))
    config = (run_dir / "config.yaml").read_text()
    resume, evaluate = ("train", f"resume={run_dir}", "trainer.max_steps=2"), ("evaluate", f"run={run_dir}")
    for kind, command, wanted in (
        ("a group", resume, 2),
        ("a group", evaluate, 2),
        ("a logger", resume, 2),
        ("a logger", evaluate, 0),
        ("beside what is read", resume, 0),
    ):
        (run_dir / "config.yaml").write_text(config)
        OmegaConf.save(crafted_config(run_dir, kind, broken_in), run_dir / "config.yaml")
        code, _, error = hires(*command)
        assert code == wanted, (kind, command, error)
        assert not wanted or error.strip().splitlines()[-1].startswith(CRAFTED[kind][0])
    assert not broken_in.exists()


def test_config_with_python_in_it_is_refused(train, hires, tmp_path):
    run_dir = train(tmp_path / "run", "trainer.max_steps=1")
    with open(run_dir / "config.yaml", "a") as file:
        file.write(f"extra: !!python/object/apply:os.mkdir ['{tmp_path / 'broken_in'}']\n")
    for command in (("train", f"resume={run_dir}"), ("evaluate", f"run={run_dir}")):
        code, _, error = hires(*command)
        assert code == 1
        assert error.strip().splitlines()[-1].startswith(f"{run_dir / 'config.yaml'}: not YAML")
    assert not (tmp_path / "broken_in").exists()
