"""The functions for notebooks."""

import subprocess
import sys

import pytest
from hydra.core.hydra_config import HydraConfig

import hires
from hires import verbosity
from hires.interfaces import ConfigError, DataError

SMALL = (
    "data=mask_folder",
    "data.images=images/*.png",
    "data.masks=masks/*.png",
    "data.classes={background: 0, disc: 100, bar: 200}",
    "data.ignore_values=[255]",
    "data.workers=0",
    "backbone=timm",
    "backbone.name=test_resnet",
    "backbone.pretrained=false",
    "image_size=64",
    "batch_size=2",
    "trainer.accelerator=cpu",
)


def test_importing_takes_no_torch():
    code = "import sys, hires; print('torch' in sys.modules, hires.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "False"


def test_a_run_is_trained_and_read_again(shapes, tmp_path):
    folder = tmp_path / "run"
    made = hires.train(*SMALL, f"data.root={shapes}", "trainer.max_steps=2", f"run_dir={folder}")
    run = hires.load_run(folder)
    assert made.path == run.path == folder
    assert run.result["steps"] == 2
    assert run.config.image_size == 64
    assert [record["step"] for record in run.metrics if record["kind"] == "train"] == [2]
    assert not HydraConfig.initialized()
    done = hires.predict(run, shapes / "images" / "0.png", out=tmp_path / "out", overlays=False)
    assert done["failures"] == []
    assert len(list((tmp_path / "out" / "masks").iterdir())) == 1


def test_an_unfinished_run_has_no_result(shapes, tmp_path, capfd):
    more = ("trainer.max_steps=1", "log_level=warning", f"run_dir={tmp_path / 'run'}")
    run = hires.train(*SMALL, f"data.root={shapes}", *more)
    assert capfd.readouterr().out == ""
    assert not verbosity.is_quiet()
    (run.path / "result.json").unlink()
    assert hires.load_run(run.path).result is None
    before = run.metrics
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')
    assert run.metrics == before != []


def test_one_process_does_not_start_others_by_its_own_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"trainer\.devices: got 2 processes, .*use the command line"):
        hires.train("experiment=demo", "trainer.devices=2", "trainer.accelerator=cpu", "backbone.pretrained=false")
    assert not list(tmp_path.iterdir())


def test_a_run_is_repeated(shapes, tmp_path):
    first = hires.train(*SMALL, f"data.root={shapes}", "trainer.max_steps=1", f"run_dir={tmp_path / 'run'}")
    again = hires.train(f"run_config={first.path}", "seed=5", f"run_dir={tmp_path / 'again'}")
    assert (again.config.data.root, again.config.seed, again.result["steps"]) == (str(shapes), 5, 1)


def test_a_plan_fits_its_budget_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    needs = ("model.num_classes=3", "memory.device=cuda", "memory.budget=1GiB", "memory.maximize=batch")
    found = hires.plan(*SMALL[6:], *needs)
    assert found.predicted.reserved <= 2**30
    assert found.micro_batch_size in (1, 2)
    assert not list(tmp_path.iterdir())


def test_mistakes_are_told_as_on_the_command_line(tmp_path):
    with pytest.raises(ConfigError, match="did you mean trainer.max_steps"):
        hires.train("trainer.max_stepz=3")
    with pytest.raises(DataError, match="not a run directory"):
        hires.load_run(tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        hires.trian  # noqa: B018
