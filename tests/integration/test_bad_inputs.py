"""Ten bad inputs: each ends in one line that names the thing, what is wrong and what to do."""

import shutil

import cv2
import numpy as np
import pytest


@pytest.fixture
def folder(shapes, tmp_path):
    """A copy of the data set, to be broken."""
    return shutil.copytree(shapes, tmp_path / "set")


@pytest.fixture
def fails(hires, shapes_overrides, folder):
    """Trains on the broken copy; returns the one line of the error, having checked exit code and silence."""

    def run(code: int, *more: str) -> str:
        overrides = [o for o in shapes_overrides if not o.startswith("data.root=")]
        actual, _, error = hires("train", *overrides, f"data.root={folder}", "trainer.max_steps=8", *more)
        assert "Traceback" not in error
        assert actual == code, error
        return error.strip().splitlines()[-1]

    return run


def test_unknown_key(fails):
    line = fails(2, "trainer.max_stepz=5")
    assert "trainer.max_stepz" in line
    assert "trainer.max_steps" in line


def test_wrong_type(fails):
    line = fails(2, "optimizer.lr=abc")
    assert line.startswith("optimizer.lr: got 'abc'")
    assert "a number" in line


def test_missing_folder(fails, folder):
    shutil.rmtree(folder)
    line = fails(1)
    assert str(folder) in line
    assert "data.root" in line


def test_image_without_mask(fails, folder):
    (folder / "masks" / "3.png").unlink()
    line = fails(1)
    assert "images/3.png" in line
    assert "without mask" in line


def test_mask_of_another_size(fails, folder):
    mask = cv2.imread(str(folder / "masks" / "2.png"), cv2.IMREAD_UNCHANGED)
    cv2.imwrite(str(folder / "masks" / "2.png"), mask[:-1])
    line = fails(1)
    assert "masks/2.png" in line
    assert "images/2.png" in line
    assert "163x201" in line


def test_unlisted_mask_value(fails, folder):
    path = folder / "masks" / "4.png"
    mask = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    mask[7:9, :3] = 77
    cv2.imwrite(str(path), mask)
    line = fails(1)
    assert "masks/4.png" in line
    assert "77 (6 px)" in line
    assert "data.unlisted=ignore" in line


def test_truncated_jpeg(fails, folder):
    image = cv2.imread(str(folder / "images" / "1.png"))
    (folder / "images" / "1.png").unlink()
    data = cv2.imencode(".jpg", image)[1].tobytes()
    (folder / "images" / "1.jpg").write_bytes(data[: len(data) * 2 // 3])
    line = fails(1, "data.images=images/*")
    assert "images/1.jpg" in line
    assert "cut short" in line.partition("images/1.jpg")[2]


def test_zero_byte_file(fails, folder):
    (folder / "images" / "0.png").write_bytes(b"")
    line = fails(1)
    assert "images/0.png" in line
    assert "empty" in line


def test_class_table_with_a_repeated_value(fails):
    line = fails(2, "data.classes={background: 0, disc: 100, bar: 100}")
    assert "data.classes" in line
    assert "100" in line


@pytest.mark.parametrize("workers", [0, 2])
def test_image_smaller_than_the_window_is_padded(hires, shapes_overrides, folder, tmp_path, workers):
    """Padding counts neither in the loss nor in the metric: the evaluator sees every pixel of the image, once."""
    small = np.full((20, 30, 3), 90, np.uint8)
    for name in ("4", "5"):
        cv2.imwrite(str(folder / "images" / f"{name}.png"), small)
        cv2.imwrite(str(folder / "masks" / f"{name}.png"), np.full((20, 30), 100, np.uint8))
    overrides = [o for o in shapes_overrides if not o.startswith("data.root=")]
    more = [f"data.root={folder}", "evaluation.window=128", f"data.workers={workers}"]
    code, _, error = hires("train", *overrides, *more)
    assert code == 0, error

    from hires.data.augment import Augment
    from hires.data.mask_folder import MaskFolder
    from hires.data.windows import WindowDataset
    from hires.interfaces import IGNORE

    settings = MaskFolder(
        root=str(folder),
        images="images/*.png",
        masks="masks/*.png",
        classes={"background": 0, "disc": 100, "bar": 200},
        ignore_values=(255,),
        splits={"train": ["images/4.png", "images/5.png"]},
    )
    sample = WindowDataset(settings.source("train"), (64, 64), settings.window, Augment(), 0)[(0, 0)]
    counted = sample.target["mask"] != IGNORE
    assert counted.sum() == 20 * 30
    assert counted[:20, :30].all()
