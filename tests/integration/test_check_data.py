"""`hires check-data` through the command line: what it leaves, how it ends, what its proposal is good for."""

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile
from omegaconf import OmegaConf
from PIL import Image

from hires.proposed_config import command_for
from hires.recipe import read_recipe

NUMBER, TEXT = (int, float), str
PLACE = {"file": TEXT, "detail": TEXT}
SCHEMA = {
    "command": TEXT,
    "run_dir": TEXT,
    "overrides": [TEXT],
    "root": TEXT,
    "image_size": [int],
    "fit": TEXT,
    "counts": {"error": int, "warning": int, "info": int},
    "findings": [
        {"code": TEXT, "severity": TEXT, "text": TEXT, "advice": TEXT, "number": int, "places": [PLACE]},
    ],
    "images": {
        "count": int,
        "read": int,
        "pixels": int,
        "formats": {"*": int},
        "types": {"*": int},
        "bands": {"*": int},
        "sizes": {"distinct": int, "smallest": [int], "median": [int], "largest": [int]},
        "range": [NUMBER],
        "mean": [NUMBER],
        "deviation": [NUMBER],
    },
    "splits": {"*": int},
    "unit": TEXT,
    "classes": [
        {
            "name": TEXT,
            "counts": {"*": int},
            "images": {"*": int},
            "sizes": {"*": NUMBER},
            "below": {"*": NUMBER},
            "below_resized": NUMBER,
        }
    ],
    "proposals": [{"key": TEXT, "value": object, "reason": TEXT}],
    "proposed": {"file": TEXT, "command": TEXT},
    "seconds": NUMBER,
}
MAY_BE_NULL = {"mean", "deviation", "below_resized", "image_size", "smallest", "median", "largest", "range"}


def fits(value, schema, key=""):
    """Asserts that a value has just the keys and kinds of a schema."""
    if value is None:
        assert key in MAY_BE_NULL, key
    elif isinstance(schema, dict):
        assert isinstance(value, dict), key
        if set(schema) != {"*"}:
            assert list(value) == list(schema), key
        for name, child in value.items():
            fits(child, schema.get(name, schema.get("*")), name)
    elif isinstance(schema, list):
        assert isinstance(value, list), key
        for child in value:
            fits(child, schema[0], key)
    else:
        assert isinstance(value, schema), key
        assert not (isinstance(value, bool) and schema is not object), key


@pytest.fixture
def check(hires, tmp_path):
    """Runs the command: (exit code, data.json, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, dict, str, str]:
        run_dir = tmp_path / "run"
        arguments = tuple(argument for argument in arguments if not argument.startswith("run_dir="))
        code, output, error = hires("check-data", *arguments, f"run_dir={run_dir}")
        return code, json.loads((run_dir / "data.json").read_text()), output, error

    return run


def test_what_it_leaves(check, shapes_overrides, tmp_path):
    code, outcome, output, _ = check(*shapes_overrides)
    assert code == 0
    assert {p.name for p in (tmp_path / "run").rglob("*") if p.is_file()} == {
        "data.json",
        "data.html",
        "proposed.yaml",
    }
    fits(outcome, SCHEMA)
    assert outcome["splits"] == {"train": 5, "val": 1}
    assert [one["name"] for one in outcome["classes"]] == ["background", "disc", "bar"]
    assert outcome["counts"]["error"] == 0
    assert "nothing that stops training" in output
    page = (tmp_path / "run" / "data.html").read_text()
    assert "nothing that stops training" in page
    assert all(one["text"] in page for one in outcome["findings"])


def test_errors_end_with_code_1_and_are_all_there(check, shapes_overrides, shapes, tmp_path):
    root = copied(shapes, tmp_path)
    name = "<img src=x>.png"
    (root / "images" / "0.png").write_bytes(b"broken")
    (root / "images" / "1.png").rename(root / "images" / name)
    (root / "masks" / "2.png").write_bytes(b"broken")
    code, outcome, output, error = check(*shapes_overrides, f"data.root={root}")
    assert code == 1
    assert error.count("\n") == 1
    assert "kind(s) of errors" in error
    fits(outcome, SCHEMA)
    codes = [one["code"] for one in outcome["findings"] if one["severity"] == "error"]
    assert sorted(codes) == ["image-without-label", "unreadable-image", "unreadable-mask"]
    assert "images/0.png: " in output
    page = (tmp_path / "run" / "data.html").read_text()
    assert name not in page
    assert "&lt;img src=x&gt;.png" in page


def copied(shapes: Path, tmp_path: Path) -> Path:
    shutil.copytree(shapes, tmp_path / "data set")
    return tmp_path / "data set"


def test_a_wrong_key_and_no_data_end_in_a_line(hires, tmp_path, shapes_overrides):
    code, _, error = hires("check-data", *shapes_overrides, "data.rot=x")
    assert (code, error.count("\n")) == (2, 1)
    assert "did you mean data.root?" in error
    code, _, error = hires("check-data", *shapes_overrides, f"data.root={tmp_path / 'gone'}")
    assert (code, error.count("\n")) == (1, 1)
    assert "no such folder" in error
    assert not (tmp_path / "run").exists()


def test_a_full_disk_ends_in_a_line_after_the_findings(hires, tmp_path, shapes_overrides, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, output, error = hires("check-data", *shapes_overrides, f"run_dir={tmp_path / 'run'}")
    assert (code, error.count("\n")) == (1, 1)
    assert "cannot be written (No space left on device)" in error
    assert "nothing that stops training" in output


def test_it_ends_quietly_when_nobody_reads_its_output(tmp_path, shapes_overrides):
    command = [sys.executable, "-m", "hires.cli", "check-data", *shapes_overrides, f"run_dir={tmp_path / 'run'}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        error = process.stderr.read()
    assert (process.returncode, error) == (0, "")
    assert (tmp_path / "run" / "data.html").exists()


def test_the_proposal_trains(check, hires, shapes_overrides, tmp_path):
    code, outcome, _, _ = check(*shapes_overrides, "image_size=256")
    assert code == 0
    assert outcome["proposed"]["command"] == f"hires train --config-dir {tmp_path / 'run'} experiment=proposed"
    values = {one["key"]: one["value"] for one in outcome["proposals"]}
    assert values["image_size"] == 192  # the images are 150 to 185 pixels high
    assert values["data.normalize"] == "dtype"
    assert len(values["task.loss.class_weights"]) == 3
    assert values["task.loss.class_weights"][0] == min(values["task.loss.class_weights"])
    run_dir = tmp_path / "trained"
    words = outcome["proposed"]["command"].split()[1:]
    code, _, error = hires(*words, f"run_dir={run_dir}")
    assert code == 0, error
    config = (run_dir / "config.yaml").read_text()
    assert "image_size: 192" in config
    assert "max_steps: 4" in config  # of the command line that was checked
    assert json.loads((run_dir / "result.json").read_text())["steps"] == 4


def test_the_command_of_a_proposal_is_one_for_a_shell():
    command = command_for(Path("my runs/it's $HOME"))
    assert shlex.split(command) == ["hires", "train", "--config-dir", "my runs/it's $HOME", "experiment=proposed"]


def test_no_window_larger_than_every_image_is_proposed(check, tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("0 0.5 0.5 0.9 0.9\n")
        pixels = np.random.default_rng(number).integers(0, 255, (40, 60, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    given = (f"data.root={tmp_path}", "data.images=*.png", "data.labels=*.txt", "data.classes=[a]")
    code, outcome, _, error = check(
        *("experiment=demo_detection", "data=yolo"), *given, "data.splits={val: 3.png}", "data.workers=0"
    )
    assert code == 0, error
    (proposal,) = [one for one in outcome["proposals"] if one["key"] == "image_size"]
    assert proposal["value"] == 64
    assert "no side of an image is longer than 60 px" in proposal["reason"]


def test_the_proposal_builds_on_an_experiment(check, hires, tmp_path):
    small = ["data.generator.size=256", "data.generator.train=2", "data.generator.val=1", "data.generator.test=1"]
    code, outcome, _, _ = check(
        "experiment=demo_detection", "model=retinanet", f"data_dir={tmp_path}", *small, "data.workers=0"
    )
    assert code == 0
    fits(outcome, SCHEMA)
    text = (tmp_path / "run" / "experiment" / "proposed.yaml").read_text()
    assert "  - demo_detection\n  - override /model: retinanet\n  - _self_\n" in text
    values = {one["key"]: one["value"] for one in outcome["proposals"]}
    assert len(values["model.anchors.sizes"]) == 5
    assert len(values["model.anchors.aspects"]) == 3
    words = outcome["proposed"]["command"].split()[1:]
    code, output, error = hires(*words, "--cfg", "job")
    assert code == 0, error
    assert "hires.models.detection.retinanet.RetinaNetSettings" in output
    assert f"sizes:\n    - {values['model.anchors.sizes'][0]}" in output
    assert "size: 256" in output
    anchors = read_recipe(OmegaConf.create(output)).model.anchors.build((8, 16, 32, 64, 128))
    assert anchors.per_position == 9
    assert (anchors.cells(0)[0, 2] - anchors.cells(0)[0, 0]) > 0


def test_the_demo_is_sound(check, tmp_path):
    small = ["data.generator.size=256", "data.generator.train=2", "data.generator.val=1", "data.generator.test=1"]
    code, outcome, _, _ = check("experiment=demo", f"data_dir={tmp_path}", *small, "data.workers=0")
    assert code == 0
    assert outcome["counts"]["error"] == 0
    assert {one["code"] for one in outcome["findings"]} <= {"names-recur", "classes-uneven", "class-not-evaluated"}


def test_help_has_the_examples(hires):
    code, output, _ = hires("check-data", "--help")
    assert code == 0
    assert "hires check-data experiment=hrf_vessels data_dir=DIR" in output


def test_images_in_windows_give_the_same_as_whole(tmp_path, check):
    """A tiled file that is read in bands, and the same pixels in one that is not."""
    rng = np.random.default_rng(0)
    pixels = np.kron(rng.integers(0, 256, (75, 70, 3), np.uint8), np.ones((40, 60, 1), np.uint8))
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    tifffile.imwrite(tmp_path / "images" / "0.tif", pixels, photometric="rgb", tile=(256, 256))
    Image.fromarray(pixels).save(tmp_path / "images" / "1.png", compress_level=1)
    for number in range(2):
        Image.fromarray(pixels[:, :, 0] // 128).save(tmp_path / "masks" / f"{number}.png")
    code, outcome, _, _ = check(
        "data=mask_folder",
        f"data.root={tmp_path}",
        "data.classes={a: 0, b: 1}",
        "data.splits={val: images/1.png}",
        "data.workers=0",
    )
    assert code == 1
    (leak,) = [one for one in outcome["findings"] if one["code"] == "leak-copy"]
    assert leak["places"][0]["detail"] == "in train, and images/1.png in val"
    np.testing.assert_allclose(outcome["images"]["mean"], pixels.mean(axis=(0, 1)), rtol=1e-9)
    np.testing.assert_allclose(outcome["images"]["deviation"], pixels.std(axis=(0, 1)), rtol=1e-6)
