"""Trainings on images of other types than 8-bit colour: normalised by what the run keeps."""

import json
import shutil

import numpy as np
import pytest
import tifffile
import torch

from hires.run_statistics import STATISTICS, load_normalization
from tests.many_bands import make_set, save_tiff

CHANNELS = 5


@pytest.fixture
def train(hires, tmp_path):
    """Trains on a set of 16-bit images with five bands, below `set`."""

    def run(*more: str, name: str = "run", code: int = 0, dtype: str = "uint16"):
        if not (tmp_path / "set").exists():
            make_set(tmp_path / "set", dtype, CHANNELS, 5)
        overrides = [
            "data=mask_folder",
            f"data.root={tmp_path / 'set'}",
            "data.images=images/*.tif",
            "data.masks=masks/*.png",
            "data.classes={background: 0, square: 255}",
            "data.splits={val: images/4.tif}",
            "data.workers=0",
            "backbone.name=test_resnet",
            "backbone.pretrained=false",
            "model.decoder_channels=[32,16,16,8,8]",
            "image_size=64",
            "batch_size=4",
            "trainer.max_steps=4",
            "trainer.checkpoint_every=2",
            "trainer.accelerator=cpu",
            "augmentation=light",
            "evaluation.every=null",
        ]
        found, _, error = hires("train", *overrides, f"run_dir={tmp_path / name}", *more)
        assert found == code, error
        return tmp_path / name if code == 0 else error

    return run


ALL = (f"data.channels={CHANNELS}", f"backbone.in_channels={CHANNELS}")


def task_weights(run_dir):
    return torch.load(run_dir / "checkpoints" / "last.pt", weights_only=True)["task"]


def test_evaluation_needs_the_run_but_not_the_training_images(train, hires, tmp_path):
    run_dir = train(*ALL)
    kept = load_normalization(run_dir)
    assert (kept.method, kept.dtype, len(kept.low)) == ("percentile", "uint16", CHANNELS)
    metrics = json.loads((run_dir / "result.json").read_text())["metrics"]
    for index in range(4):  # others in their place: only the run knows what they were like
        path = tmp_path / "set" / "images" / f"{index}.tif"
        shutil.copy(tmp_path / "set" / "images" / "4.tif", path)
        shutil.copy(tmp_path / "set" / "masks" / "4.png", tmp_path / "set" / "masks" / f"{index}.png")
    code, _, error = hires("evaluate", f"run={run_dir}", "checkpoint=last")
    assert code == 0, error
    again = json.loads((run_dir / "evaluate" / "val-last" / "result.json").read_text())["metrics"]
    assert again == metrics


def test_a_resumed_run_normalises_as_before_and_ends_in_the_same_bits(train, hires, tmp_path):
    steady = ("scheduler=constant", "scheduler.warmup_steps=0")
    whole = train(*ALL, *steady)
    stopped = train(*ALL, *steady, "trainer.max_steps=2", name="other")
    statistics = (stopped / STATISTICS).read_bytes()
    assert statistics == (whole / STATISTICS).read_bytes()
    code, _, error = hires("train", f"resume={stopped}", "trainer.max_steps=4")
    assert code == 0, error
    assert (stopped / STATISTICS).read_bytes() == statistics
    resumed = task_weights(stopped)
    assert all(torch.equal(value, resumed[name]) for name, value in task_weights(whole).items())


def test_a_resumed_run_takes_the_statistics_that_it_has(train, hires):
    run_dir = train(*ALL, "trainer.max_steps=2")
    content = json.loads((run_dir / STATISTICS).read_text())
    content["low"] = [value + 1 for value in content["low"]]
    (run_dir / STATISTICS).write_text(json.dumps(content))
    code, _, error = hires("train", f"resume={run_dir}", "trainer.max_steps=4")
    assert code == 0, error
    assert json.loads((run_dir / STATISTICS).read_text()) == content


@pytest.mark.parametrize(
    "more",
    [
        ("data.bands=[3,2,1]",),
        ("data.bands=[5]", "backbone.in_channels=1", "data.normalize=mean_std"),
        ("data.bands=[1,2,3]", "data.normalize=window", "data.level=2000", "data.width=3000"),
        pytest.param((*ALL, "data.normalize=minmax"), marks=pytest.mark.slow),
        (*ALL, "data.normalize=dtype", "data.fit=resize", "evaluation.fit=resize"),
    ],
)
def test_every_way_trains(train, more):
    run_dir = train(*more)
    result = json.loads((run_dir / "result.json").read_text())
    assert result["steps"] == 4
    assert all(torch.isfinite(value).all() for value in task_weights(run_dir).values())


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_other_types_train(train, dtype):
    assert load_normalization(train(*ALL, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("data.bands=[1,2]",), "backbone.in_channels: got 3, but data.bands has 2; set backbone.in_channels=2"),
        (("data.channels=5",), "backbone.in_channels: got 3, but data.channels is 5; set backbone.in_channels=5"),
        ((), "0.tif: has 5 bands, but data.channels is 3; set data.channels=5 backbone.in_channels=5"),
        ((*ALL, "augmentation=photometric"), "HueSaturationValue cannot be used on uint16 images with 5 channel"),
        (("data.bands=[1,2,9]",), "has 5 band(s), but data.bands wants band 9"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(train, more, words):
    error = train(*more, code=2 if "bands=" in words or words.startswith(("backbone", "Hue")) else 1)
    assert words in error
    assert "Traceback" not in error


def test_images_of_another_type_are_refused_by_an_evaluation(train, hires, tmp_path):
    run_dir = train(*ALL)
    shutil.rmtree(tmp_path / "set")
    make_set(tmp_path / "set", "float32", CHANNELS, 5)
    code, _, error = hires("evaluate", f"run={run_dir}")
    assert code != 0
    assert "has float32 pixels, but the run learns from uint16 ones" in error


def other_bands(path):
    save_tiff(path, np.zeros((64, 70, 4), np.uint16))


def other_type(path):
    save_tiff(path, np.zeros((64, 70, CHANNELS), np.uint8))


@pytest.mark.parametrize(
    ("spoilt", "words"),
    [(other_bands, "has 4 bands, but data.channels is 5"), (other_type, "has uint8 pixels, but")],
)
def test_what_only_a_validation_image_has_is_said_before_the_training(train, tmp_path, spoilt, words):
    make_set(tmp_path / "set", "uint16", CHANNELS, 5)
    spoilt(tmp_path / "set" / "images" / "4.tif")
    error = train(*ALL, "data.splits={val: 'images/[34].tif'}", code=1)
    assert "4.tif: " in error
    assert words in error
    assert not list(tmp_path.glob("run/metrics.jsonl"))


DAMAGES = {
    "{}": "method is missing",
    "[1, 2]": "not a mapping of names to numbers",
    "": "Expecting value",
}


def damaged(content, name, value):
    return json.dumps({**content, name: value})


def test_a_broken_statistics_file_is_named(train, hires):
    run_dir = train(*ALL)
    path = run_dir / STATISTICS
    whole = json.loads(path.read_text())
    damages = {
        **DAMAGES,
        damaged(whole, "low", whole["low"][:2]): "low has 2, high has 5",
        damaged(whole, "low", [float("nan")] * 5): "low is [NaN, NaN",
        damaged(whole, "high", "many"): 'high is "many", allowed: a list, each a number',
        damaged(whole, "high", whole["low"]): "low is not below high",
        damaged(whole, "method", "median"): "method is median, allowed: percentile",
        json.dumps({**whole, "low": [0], "high": [1]}): "is about 1 channel(s), but the run's images have 5",
    }
    for text, words in damages.items():
        path.write_text(text)
        code, _, error = hires("evaluate", f"run={run_dir}", "checkpoint=last")
        assert code == 1
        assert f"{path}: " in error
        assert words in error
        assert len(error.strip().splitlines()) == 1


def test_a_run_without_its_statistics_is_neither_evaluated_nor_resumed(train, hires):
    run_dir = train(*ALL)
    (run_dir / STATISTICS).unlink()
    for command in (
        ("evaluate", f"run={run_dir}", "checkpoint=last"),
        ("train", f"resume={run_dir}", "trainer.max_steps=6"),
    ):
        code, _, error = hires(*command)
        assert code == 1
        assert error.strip().splitlines()[-1] == f"{run_dir / STATISTICS} is missing; copy the run again"
    assert not (run_dir / STATISTICS).exists()


def test_a_run_of_8_bit_images_from_before_there_were_statistics_is_evaluated(train, hires):
    run_dir = train(*ALL, dtype="uint8")
    first = json.loads((run_dir / "result.json").read_text())["metrics"]
    (run_dir / STATISTICS).unlink()
    lines = (run_dir / "config.yaml").read_text().splitlines(keepends=True)
    (run_dir / "config.yaml").write_text("".join(line for line in lines if "normalize:" not in line))
    code, _, error = hires("evaluate", f"run={run_dir}", "checkpoint=last")
    assert code == 0, error
    assert json.loads((run_dir / "evaluate" / "val-last" / "result.json").read_text())["metrics"] == first


def test_brightness_of_the_files_does_not_matter_with_statistics(train, tmp_path):
    """Twice the numbers are the same training, to rounding."""
    first = task_weights(train(*ALL, "augmentation=none", "data.normalize=minmax"))
    for path in (tmp_path / "set" / "images").iterdir():
        save_tiff(path, (tifffile.imread(path) * np.uint16(2)).astype(np.uint16))
    second = task_weights(train(*ALL, "augmentation=none", "data.normalize=minmax", name="twice"))
    for name, value in first.items():
        assert torch.allclose(value.float(), second[name].float(), atol=1e-4), name
