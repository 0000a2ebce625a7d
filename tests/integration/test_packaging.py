"""A wheel carries the configs and trains from an empty folder; users' own configs are found."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MINE = """# @package _global_
defaults:
  - override /data: mine

image_size: 64
batch_size: 2
backbone: {name: test_resnet, pretrained: false}
trainer: {max_steps: 2, accelerator: cpu}
evaluation: {every: null}
"""
DATA = """defaults:
  - mask_folder

root: %s
images: images/*.png
masks: masks/*.png
classes: {background: 0, disc: 100, bar: 200}
ignore_values: [255]
workers: 0
"""


def test_own_config_folder(hires, shapes, tmp_path):
    configs = tmp_path / "my_configs"
    for name, text in {"experiment/mine.yaml": MINE, "data/mine.yaml": DATA % shapes}.items():
        (configs / name).parent.mkdir(parents=True)
        (configs / name).write_text(text)
    run_dir = tmp_path / "run"
    code, _, error = hires("train", "--config-dir", str(configs), "experiment=mine", f"run_dir={run_dir}")
    assert code == 0, error
    assert json.loads((run_dir / "result.json").read_text())["steps"] == 2
    code, _, error = hires("evaluate", f"run={run_dir}")
    assert code == 0, error


@pytest.mark.slow
def test_wheel_trains_the_demo_from_an_empty_folder(tmp_path):
    """The wheel in a folder of its own comes before the checkout; the libraries are those of the environment."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path), str(REPOSITORY)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    configs = {str(p.relative_to(REPOSITORY / "configs")) for p in (REPOSITORY / "configs").rglob("*.yaml")}
    assert {f"hires/_configs/{name}" for name in configs} <= names
    site, empty = tmp_path / "site", tmp_path / "empty"
    zipfile.ZipFile(wheel).extractall(site)
    empty.mkdir()
    overrides = ["data.generator.size=256", "trainer.max_steps=2", "image_size=64", "evaluation.window=128"]
    code = "import hires, sys; from hires.cli import main; print(hires.__file__); sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "experiment=demo", "backbone.name=test_resnet", *overrides],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout
    assert len(list(empty.glob("runs/demo/*/result.json"))) == 1
    assert (empty / "data" / "demo" / "train" / "annotations.json").exists()
