"""Prediction through the command line: the masks that evaluation counts, in files, whatever happens meanwhile."""

import json
import shutil
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from hires.cli import main
from hires.data.images import read_values
from hires.evaluation.confusion import ConfusionMatrix
from hires.predictor import Predictor
from tests.data.geo_files import KEYS, SCALE, tags

NAMES = ("background", "disc", "bar")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, shapes):
    """A run of a few steps on `shapes`, whose classes are hardly learnt."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    arguments = [
        "data=mask_folder",
        f"data.root={shapes}",
        "data.images=images/*.png",
        "data.masks=masks/*.png",
        "data.classes={background: 0, disc: 100, bar: 200}",
        "data.ignore_values=[255]",
        "data.splits={val: 'images/[345].png'}",
        "data.workers=0",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "model.decoder_channels=[32,16,16,8,8]",
        "image_size=64",
        "batch_size=4",
        "trainer.max_steps=8",
        "trainer.accelerator=cpu",
        "optimizer.lr=0.003",
        "scheduler.warmup_steps=1",
        "evaluation.every=null",
        "logger=none",
        f"run_dir={run_dir}",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["hires", "train", *arguments])
        assert main() == 0
    return run_dir


@pytest.fixture
def images(shapes, tmp_path) -> Path:
    """The validation images, two of them in a folder of their own."""
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    for name, place in (("3", "3.png"), ("4", "sub/4.png"), ("5", "sub/5.png")):
        shutil.copy(shapes / "images" / f"{name}.png", folder / place)
    return folder


@pytest.fixture
def predict(hires, trained, images, tmp_path):
    """Predicts the images: predict(overrides...) -> what predict.json says."""

    def run(*more: str, code: int = 0, out: Path = tmp_path / "out") -> dict:
        got, _, error = hires("predict", f"run={trained}", f"source={images}", f"out={out}", *more)
        assert got == code, error
        return {**json.loads((out / "predict.json").read_text()), "stderr": error}

    return run


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_masks_score_as_the_evaluation_does(predict, trained, hires, shapes, tmp_path):
    views = ("evaluation.overlap=0.5", "evaluation.tta=[hflip]", "evaluation.statistics=image")
    assert hires("evaluate", f"run={trained}", *views)[0] == 0
    evaluated = json.loads((trained / "evaluate" / "val-best" / "result.json").read_text())["metrics"]
    predict(*views)
    counts = ConfusionMatrix(3)
    for name in ("3", "sub/4", "sub/5"):
        truth = cv2.imread(str(shapes / "masks" / f"{Path(name).name}.png"), cv2.IMREAD_UNCHANGED)
        table = np.full(256, 255, np.uint8)
        table[[0, 100, 200]] = range(3)
        counts.update(read_values(tmp_path / "out" / "masks" / f"{name}.png")[:, :, 0], table[truth])
    assert counts.iou() == pytest.approx([evaluated[f"IoU/{name}"] for name in NAMES], abs=1e-9, nan_ok=True)
    assert counts.dice() == pytest.approx([evaluated[f"Dice/{name}"] for name in NAMES], abs=1e-9, nan_ok=True)


def test_what_is_written(predict, tmp_path, images, trained):
    result = predict("probabilities=float16", "overlay_size=100")
    masks = {f"masks/{name}.png" for name in ("3", "sub/4", "sub/5")}
    others = {f"{kind}/{name}" for name in ("3", "sub/4", "sub/5") for kind in ("overlays", "probabilities")}
    wanted = masks | {f"{name}.{'jpg' if name[0] == 'o' else 'tif'}" for name in others}
    assert files(tmp_path / "out") == wanted | {"predict.json", "classes.json", "settings.json"}
    table = json.loads((tmp_path / "out" / "classes.json").read_text())
    assert [(row["index"], row["name"], row["value"]) for row in table["classes"]] == [
        *zip(range(3), NAMES, range(3), strict=True)
    ]
    with Image.open(tmp_path / "out" / "masks" / "3.png") as mask:
        colours = [f"#{bytes(mask.getpalette()[3 * i : 3 * i + 3]).hex().upper()}" for i in range(3)]
        assert colours == [row["colour"] for row in table["classes"]]
        labels = np.array(mask)
    probabilities = tifffile.imread(tmp_path / "out" / "probabilities" / "3.tif").astype(float)
    assert probabilities.shape == (3, *labels.shape)
    assert abs(probabilities.sum(0) - 1).max() < 2e-3
    chosen = np.take_along_axis(probabilities, labels[None].astype(int), 0)[0]
    assert (chosen >= probabilities.max(0) - 1e-3).all()
    assert cv2.imread(str(tmp_path / "out" / "overlays" / "3.jpg")).shape == (57, 67, 3)  # 171 x 201 by 3
    kinds = {
        "command": str,
        "run_dir": str,
        "checkpoint": str,
        "source": str,
        "out": str,
        "kinds": list,
        "files": list,
        "failures": list,
        "images": int,
        "predicted": int,
        "skipped": int,
        "seconds": float,
        "megapixels": float,
        "megapixels_per_second": float,
        "images_per_second": float,
    }
    result.pop("stderr")
    assert {name: type(value) for name, value in result.items()} == kinds
    assert result["files"][1] == {"image": str(images / "sub" / "4.png"), "output": "sub/4"}
    assert result["images"] == result["predicted"] == 3
    assert result["megapixels"] == pytest.approx(201 * (171 + 178 + 185) / 1e6)


def test_values_of_the_data_set(predict, tmp_path):
    predict("values=data", "overlays=false")
    predict("overlays=false", out=tmp_path / "plain")
    found = read_values(tmp_path / "out" / "masks" / "3.png")
    assert np.array_equal(found, np.array([0, 100, 200])[read_values(tmp_path / "plain" / "masks" / "3.png")])


def test_a_broken_image_fails_alone(predict, images, tmp_path):
    (images / "broken.png").write_bytes((images / "3.png").read_bytes()[:3000])
    cv2.imwrite(str(images / "deep.png"), np.zeros((70, 70, 3), np.uint16))
    result = predict(code=1)
    assert [Path(failure["image"]).name for failure in result["failures"]] == ["broken.png", "deep.png"]
    assert "has uint16 pixels, but the run learns from uint8" in result["failures"][1]["reason"]
    assert result["stderr"].startswith("2 of 5 image(s) failed")
    assert {name for name in files(tmp_path / "out") if "broken" in name or "deep" in name} == set()
    assert (result["predicted"], result["images"]) == (3, 5)


def test_out_of_memory_fails_an_image_after_fewer_views(predict, monkeypatch, tmp_path):
    from hires.tasks.segmentation import SegmentationTask

    whole, seen = SegmentationTask.predict, []

    def short(self, batch):
        seen.append(len(batch.images))
        if len(batch.images) > 1 or batch.images.float().mean() < 100:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return whole(self, batch)

    monkeypatch.setattr(SegmentationTask, "predict", short)
    dark = tmp_path / "photos" / "dark.png"
    cv2.imwrite(str(dark), np.full((80, 80, 3), 40, np.uint8))
    result = predict("evaluation.batch_size=4", code=1)
    assert [failure["image"] for failure in result["failures"]] == [str(dark)]
    assert "out of memory with one view" in result["failures"][0]["reason"]
    assert seen[:3] == [4, 2, 1]
    assert result["predicted"] == 3


def test_a_stopped_prediction_goes_on(predict, hires, trained, images, monkeypatch, tmp_path):
    whole, started = Predictor.parts, []

    def interrupted(self, image, **options):
        started.append(image.shape)
        parts = whole(self, image, **options)
        yield next(parts)
        if len(started) == 2:
            raise KeyboardInterrupt
        yield from parts

    monkeypatch.setattr(Predictor, "parts", interrupted)
    arguments = (f"run={trained}", f"source={images}", f"out={tmp_path / 'out'}", "evaluation.window=32")
    assert hires("predict", *arguments)[0] == 130
    assert files(tmp_path / "out") == {"masks/3.png", "overlays/3.jpg", "classes.json", "settings.json"}
    before = (tmp_path / "out" / "masks" / "3.png").stat().st_mtime_ns
    monkeypatch.setattr(Predictor, "parts", whole)
    result = predict("evaluation.window=32")
    assert (result["skipped"], result["predicted"]) == (1, 2)
    assert (tmp_path / "out" / "masks" / "3.png").stat().st_mtime_ns == before
    assert predict("evaluation.window=32", "overwrite=true")["predicted"] == 3


def test_other_settings_need_another_folder(predict, hires, trained, images, tmp_path):
    predict()
    arguments = (f"run={trained}", f"source={images}", f"out={tmp_path / 'out'}", "evaluation.overlap=0.5")
    code, _, error = hires("predict", *arguments)
    assert code == 2
    assert "has predictions with evaluation.overlap=0.25, not 0.5; give another out=, or overwrite=true" in error
    assert predict("evaluation.overlap=0.5", "overwrite=true")["predicted"] == 3


def test_another_source_goes_on_where_names_stay(predict, hires, trained, images, tmp_path):
    narrow = (f"run={trained}", f"source={images}/*/*.png", f"out={tmp_path / 'out'}")
    assert hires("predict", *narrow)[0] == 0
    made = (tmp_path / "out" / "masks" / "sub" / "4.png").stat().st_mtime_ns
    assert predict()["skipped"] == 2
    assert hires("predict", *narrow)[0] == 0
    assert json.loads((tmp_path / "out" / "predict.json").read_text())["skipped"] == 2
    assert (tmp_path / "out" / "masks" / "sub" / "4.png").stat().st_mtime_ns == made
    code, _, error = hires("predict", narrow[0], f"source={images / 'sub'}", narrow[2])
    assert code == 2
    assert f"has predictions of {images / 'sub' / '4.png'} called sub/4, not 4; give another out=" in error
    shutil.copytree(images, tmp_path / "others")
    code, _, error = hires("predict", narrow[0], f"source={tmp_path / 'others'}", narrow[2])
    assert code == 2
    assert f"called 3 of {images / '3.png'}, not of {tmp_path / 'others' / '3.png'}; give another out=" in error


def test_masks_beside_the_images_are_no_images(hires, trained, shapes, tmp_path):
    out = tmp_path / "out"
    code, said, error = hires("predict", f"run={trained}", f"source={shapes}", f"out={out}", "overlays=false")
    assert code == 0, error
    assert "6 file(s) there are left out: data.masks='masks/*.png' of the run matches them" in said
    result = json.loads((out / "predict.json").read_text())
    assert {each["output"] for each in result["files"]} == {f"images/{number}" for number in range(6)}
    code, _, error = hires("predict", f"run={trained}", f"source={shapes / 'masks'}", f"out={tmp_path / 'no'}")
    assert code == 1
    assert error.startswith(
        f"source={shapes / 'masks'}: holds only what data.masks='masks/*.png' of the run matches"
    )
    assert not (tmp_path / "no").exists()


def test_no_training_data_is_needed(predict, trained, tmp_path):
    config = (trained / "config.yaml").read_text()
    try:
        (trained / "config.yaml").write_text(config.replace("shapes0", "gone"))
        assert "gone" in (trained / "config.yaml").read_text()
        assert predict()["predicted"] == 3
    finally:
        (trained / "config.yaml").write_text(config)


def test_a_geotiff_keeps_its_place(hires, trained, images, tmp_path):
    pixels = cv2.imread(str(images / "3.png"))[..., ::-1]
    scene = tmp_path / "scene.tif"
    tifffile.imwrite(scene, pixels, photometric="rgb", extratags=tags((500000.0, 4000000.0), 0.5))
    code, _, error = hires("predict", f"run={trained}", f"source={images / '3.png'}")
    assert code == 0, error
    code, _, error = hires("predict", f"run={trained}", f"source={scene}", "probabilities=true")
    assert code == 0, error
    out = trained / "predict" / "scene"
    mask = read_values(out / "masks" / "scene.tif")
    assert np.array_equal(mask, read_values(trained / "predict" / "3" / "masks" / "3.png"))
    with tifffile.TiffFile(scene) as source:
        for kind in ("masks", "probabilities"):
            with tifffile.TiffFile(out / kind / "scene.tif") as written:
                for code in (SCALE, 33922, KEYS):
                    assert written.pages[0].tags[code].value == source.pages[0].tags[code].value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("source=no/such", "no/such: no such file or folder; check source="),
        ("format=bmp", "format: got 'bmp', allowed: auto, png, tiff"),
        ("score=2", "score: got 2"),
        ("out=''", "out: got an empty text"),
        ("evaluation.image_size=64", "evaluation.image_size: got 64, allowed: null with evaluation.fit=window"),
        ("checkpoint=none.pt", "none.pt"),
    ],
)
def test_mistakes_are_one_line(override, message, hires, trained, images):
    code, _, error = hires("predict", f"run={trained}", f"source={images}", override)
    assert code in (1, 2)
    assert error.startswith(message)
    assert error.count("\n") == 1
