"""Runs that cannot go on as they are: damaged checkpoints, and configurations that strangers have made."""

from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from hires.interfaces import ConfigError
from hires.recipe import read_recipe
from tests.integration.test_resume import records, training


@pytest.fixture
def train(hires, shapes_overrides):
    return training(hires, shapes_overrides)


@pytest.fixture
def one_step(train, copied, tmp_path):
    """A run of one step."""
    run_dir = tmp_path / "run"
    return copied(run_dir, lambda: train(run_dir, "trainer.max_steps=1"))


def test_precision_that_the_checkpoint_does_not_fit(one_step, hires):
    run_dir = one_step
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


@pytest.mark.parametrize("damage", [b"", pytest.param(b"not a checkpoint", marks=pytest.mark.slow), None])
def test_broken_checkpoints_are_refused_in_one_line(one_step, hires, tmp_path, damage):
    run_dir = one_step
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


def test_config_of_a_stranger_runs_nothing(one_step, hires, tmp_path):
    run_dir, broken_in = one_step, tmp_path / "broken_in"
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


def test_config_with_python_in_it_is_refused(one_step, hires, tmp_path):
    run_dir = one_step
    with open(run_dir / "config.yaml", "a") as file:
        file.write(f"extra: !!python/object/apply:os.mkdir ['{tmp_path / 'broken_in'}']\n")
    for command in (("train", f"resume={run_dir}"), ("evaluate", f"run={run_dir}")):
        code, _, error = hires(*command)
        assert code == 1
        assert error.strip().splitlines()[-1].startswith(f"{run_dir / 'config.yaml'}: not YAML")
    assert not (tmp_path / "broken_in").exists()
