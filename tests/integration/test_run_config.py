"""`run_config=` repeats a run, bit by bit, with what the command line changes; a file gets nothing else done."""

import json
import shutil

import pytest
import torch
import yaml


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of the runs of this module."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def run(hires, shapes_overrides, made):
    """A run of three steps, with options of groups that are not the defaults."""
    if not (made / "first" / "result.json").exists():
        shutil.rmtree(made / "first", ignore_errors=True)
        overrides = [o for o in shapes_overrides if not o.startswith(("run_dir=", "trainer.max_steps="))]
        more = ("optimizer=sgd", "augmentation=light", "trainer.max_steps=3", "trainer.ema_decay=0.9")
        code, _, error = hires("train", *overrides, *more, "logger=none", f"run_dir={made / 'first'}")
        assert code == 0, error
    return made / "first"


def config(run_dir):
    return yaml.safe_load((run_dir / "config.yaml").read_text())


def weights(run_dir):
    state = torch.load(run_dir / "checkpoints" / "last.pt", weights_only=True)
    return state["task"] | {f"ema.{name}": value for name, value in state["ema"].items()}


def last_line(error):
    return error.strip().splitlines()[-1]


def test_a_run_is_repeated_bit_by_bit(run, hires, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, error = hires("train", f"run_config={run / 'config.yaml'}", "run_dir=again")
    assert code == 0, error
    one, other = weights(run), weights(tmp_path / "again")
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    first, second = config(run), config(tmp_path / "again")
    assert second.pop("run_dir") == str(tmp_path / "again")
    first.pop("run_dir")
    assert first == second


def test_overrides_apply_on_top(run, hires, tmp_path):
    """Of keys that the run has and the defaults lack, of options of groups, of new keys."""
    more = (
        "data.splits={val: images/4.png}",  # a mapping replaces another
        "optimizer=adamw",
        "optimizer.lr=0.002",
        "trainer.max_steps=1",
        "data.classes={background: 0, disc: 100, bar: 200}",
        "+optimizer.arguments.amsgrad=true",
    )
    code, _, error = hires("train", f"run_config={run}", f"run_dir={tmp_path / 'other'}", *more)
    assert code == 0, error
    first, second = config(run), config(tmp_path / "other")
    assert second["data"]["splits"] == {"val": "images/4.png"}
    assert (second["optimizer"]["name"], second["optimizer"]["lr"]) == ("adamw", 0.002)
    assert second["optimizer"]["arguments"]["amsgrad"] is True
    assert second["trainer"] == {**first["trainer"], "max_steps": 1}
    for group in ("model", "backbone", "augmentation", "task", "logger"):
        assert first[group] == second[group]


@pytest.mark.slow
def test_a_sweep_over_a_run(run, hires, tmp_path):
    code, _, error = hires(
        *("train", "-m", f"run_config={run}", "data.windows_per_epoch=8,12", "trainer.max_steps=1"),
        f"hydra.sweep.dir={tmp_path / 'sweep'}",
    )
    assert code == 0, error
    found = [config(tmp_path / "sweep" / str(job))["data"]["windows_per_epoch"] for job in range(2)]
    assert found == [8, 12]


@pytest.mark.slow
def test_the_line_of_a_scheduler_goes_on_with_the_repeated_run(run, hires, tmp_path):
    line = ("train", f"run_config={run}", "resume=auto", f"run_dir={tmp_path / 'mine'}")
    for steps in (1, 2):
        code, _, error = hires(*line, f"trainer.max_steps={steps}")
        assert code == 0, error
    assert json.loads((tmp_path / "mine" / "result.json").read_text())["steps"] == 2


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("optimizer.lrr=1",), "optimizer.lrr: no such key"),
        (("data.imagess=1",), "data.imagess: no such key"),
        (("experiment=demo",), "experiment: cannot be chosen beside run_config"),
        (("optimizer=sgdd",), "optimizer: got sgdd; did you mean optimizer=sgd?"),
        (("optimizer.lr=fast",), "optimizer.lr: got 'fast'"),
        (("resume=somewhere",), "resume: got somewhere beside run_config"),
        (("trainer.max_steps=[1",), "trainer.max_steps: got [1"),
    ],
)
def test_wrong_overrides_end_in_one_line(run, hires, tmp_path, overrides, said):
    code, _, error = hires("train", f"run_config={run}", f"run_dir={tmp_path / 'x'}", *overrides)
    assert code == 2, error
    assert last_line(error).startswith(said)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda c: c["trainer"].update(max_stepz=3),
            "trainer.max_stepz: no such key; did you mean trainer.max_steps",
        ),
        (lambda c: c.update(imagesize=3), "imagesize: no such key; did you mean image_size"),
        (lambda c: c.pop("model"), "model: has been removed, but is needed"),
        (lambda c: c["data"].update(root="${nowhere}"), "data.root: "),
        (
            lambda c: c.update(allow_targets=["os."], augmentation={"_target_": "os.system"}),
            "augmentation._target_",
        ),
    ],
)
def test_wrong_files_end_in_one_line(run, hires, tmp_path, change, said):
    content = config(run)
    change(content)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    code, _, error = hires("train", f"run_config={path}", f"run_dir={tmp_path / 'x'}")
    assert code == 2, error
    assert last_line(error).startswith(f"run_config: {path}: {said}"), error
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("where", ["augmentation.transforms", "logger.mine", "data.window"])
def test_foreign_targets_are_not_imported(run, hires, tmp_path, where, monkeypatch):
    (tmp_path / "crafted.py").write_text(f"open({str(tmp_path / 'done')!r}, 'w').close()\nclass Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    content = config(run)
    content["allow_targets"] = ["crafted."]
    group, key = where.split(".")
    content[group] = content[group] or {}
    thing = {"_target_": "crafted.Thing"}
    content[group][key] = [thing] if key == "transforms" else thing
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    code, _, error = hires("train", f"run_config={path}", f"run_dir={tmp_path / 'x'}")
    assert code == 2, error
    assert "crafted.Thing" in last_line(error)
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize("content", [None, "- 1", "a: [", "not: a run"])
def test_what_is_no_configuration(hires, tmp_path, content):
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_text(content)
    code, _, error = hires("train", f"run_config={path}", f"run_dir={tmp_path / 'x'}")
    assert code in (1, 2)
    assert str(path) in last_line(error)
    assert "Traceback" not in error


def test_a_file_of_an_earlier_version_lacks_later_keys(run, hires, tmp_path):
    content = config(run)
    del content["run_config"], content["trainer"]["max_skipped"]
    path = tmp_path / "old.yaml"
    path.write_text(yaml.safe_dump(content))
    more = (f"run_dir={tmp_path / 'x'}", "trainer.max_steps=1")
    code, _, error = hires("train", f"run_config={path}", *more)
    assert code == 0, error
