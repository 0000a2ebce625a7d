"""Prediction of a detector through the command line: what it finds comes back as a data set, and on a map."""

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile

from hires.cli import main
from hires.data.coco import CocoFolder
from hires.data.geo_folder import GeoBoxes
from hires.data.images import read_image
from hires.ops.paste import pasted
from hires.predict_images import best_confidence
from hires.predictor import load_predictor
from tests.data.geo_files import tags

FOUND = ("evaluation.score_threshold=0.1", "evaluation.max_detections=20")  # of a network that has learnt nothing


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A Mask R-CNN after two steps on the demo, and the demo."""
    root = tmp_path_factory.mktemp("trained_boxes")
    arguments = [
        "data=demo_boxes",
        f"data.root={root / 'demo'}",
        "data.generator={size: 160, train: 2, val: 1, test: 2}",
        "data.workers=0",
        "model=mask_rcnn",
        "model.neck.channels=16",
        "model.mask_channels=8",
        "model.mask_convs=1",
        "model.regions.hidden=16",
        "model.regions.samples=16",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "image_size=96",
        "batch_size=2",
        "trainer.max_steps=2",
        "trainer.accelerator=cpu",
        "evaluation.every=null",
        "logger=none",
        f"run_dir={root / 'run'}",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["hires", "train", *arguments])
        assert main() == 0
    return root


@pytest.fixture
def predict(hires, trained, tmp_path):
    def run(source: Path, *more: str, out: str = "out") -> Path:
        arguments = (f"run={trained / 'run'}", f"source={source}", f"out={tmp_path / out}")
        code, _, error = hires("predict", *arguments, *FOUND, *more)
        assert code == 0, error
        return tmp_path / out

    return run


@pytest.fixture
def images(trained, tmp_path) -> Path:
    """Two images, one in a folder of its own."""
    paths = sorted((trained / "demo").rglob("*.png"))[:2] or sorted((trained / "demo").rglob("*.jpg"))[:2]
    (tmp_path / "photos" / "sub").mkdir(parents=True)
    for path, place in zip(paths, ("one.png", "sub/two.png"), strict=True):
        cv2.imwrite(str(tmp_path / "photos" / place), cv2.imread(str(path)))
    return tmp_path / "photos"


def found_in(trained: Path, path: Path):
    """What the network finds, without any file."""
    given = {name.removeprefix("evaluation."): json.loads(value) for name, value in (o.split("=") for o in FOUND)}
    predictor = load_predictor(trained / "run", evaluation=given)
    (found,) = predictor.parts(read_image(path))
    return found, list(pasted(found)), predictor.classes


def test_a_data_set_comes_back(predict, images, trained):
    out = predict(images)
    settings = {"root": str(out.parent), "annotations": "out/predictions.json", "images": "photos", "cache_gib": 0}
    source = CocoFolder(**settings, splits={}, instance_masks=True).source("train")
    for index, name in enumerate(("one.png", "sub/two.png")):
        assert source.name(index) == f"photos/{name}"
        found, masks, classes = found_in(trained, images / name)
        assert len(found.boxes) > 3
        assert source.classes == classes.names
        written = json.loads((out / "boxes" / name).with_suffix(".json").read_text())["annotations"]
        scores = [annotation["score"] for annotation in written]
        np.testing.assert_allclose(scores, found.scores, rtol=1e-6)
        target = source.read(index)[1]
        np.testing.assert_allclose(target["boxes"], found.boxes, atol=1e-3)
        assert target["labels"].tolist() == found.labels.tolist()
        for read, mask in zip(target["masks"], masks, strict=True):
            assert np.array_equal(whole(read), whole(mask))


def whole(instance) -> np.ndarray:
    canvas = np.zeros((160, 160), bool)
    canvas[instance.y : instance.y + instance.mask.shape[0], instance.x : instance.x + instance.mask.shape[1]] = (
        instance.mask
    )
    return canvas


@pytest.mark.parametrize("epsg", [32633, 4326])
def test_a_map_comes_back(predict, images, trained, epsg):
    scene = images / "scene.tif"
    pixels = read_image(images / "one.png")
    corner, pixel = ((500_000.0, 5_000_000.0), 0.5) if epsg == 32633 else ((13.0, 52.0), 1e-5)
    tifffile.imwrite(scene, pixels, photometric="rgb", extratags=tags(corner, pixel, epsg=epsg))
    out = predict(scene)
    content = json.loads((out / "geojson" / "scene.geojson").read_text())
    assert ("crs" in content) == (epsg != 4326)
    settings = {"root": str(images), "images": "*.tif", "annotations": str(out / "geojson" / "scene.geojson")}
    source = GeoBoxes(**settings, class_property="class", splits={}, cache_gib=0, instance_masks=True).source(
        "train"
    )
    found, masks, classes = found_in(trained, scene)
    shown = [index for index, mask in enumerate(masks) if mask.mask.any()]
    assert len(content["features"]) == len(shown) > 3
    target = source.read(0)[1]
    assert [source.classes[label] for label in target["labels"]] == [classes.names[found.labels[i]] for i in shown]
    for read, index in zip(target["masks"], shown, strict=True):
        assert np.array_equal(whole(read), whole(masks[index]))


def test_only_what_is_sure_enough(predict, images, trained, hires):
    evaluated = trained / "run" / "evaluate" / "val-best" / "result.json"
    evaluated.parent.mkdir(parents=True, exist_ok=True)
    best = {"metrics": {"confidence": 0.25}, "checkpoint": str(trained / "run" / "checkpoints" / "best.pt")}
    evaluated.write_text(json.dumps(best))
    every = scores(predict(images))
    middle = sorted(every)[len(every) // 2]
    assert scores(predict(images, f"score={middle}", out="some")) == [s for s in every if s >= middle]
    assert scores(predict(images, "score=best", out="best")) == [s for s in every if s >= 0.25]
    evaluated.write_text(json.dumps({**best, "metrics": {"confidence": 0.3}}))
    arguments = (f"run={trained / 'run'}", f"source={images}", *FOUND)
    code, _, error = hires("predict", *arguments, "score=best", f"out={images.parent / 'best'}")
    assert code == 2
    assert "has predictions with score.written=0.25, not 0.3; give another out=" in error
    evaluated.write_text(json.dumps({**best, "checkpoint": str(images / "one.png")}))
    assert best_confidence(load_predictor(trained / "run")) != 0.25, "that is of another file"
    code, _, error = hires("predict", f"run={trained / 'run'}", f"source={images}", "probabilities=true")
    assert code == 2
    assert error.startswith("probabilities: got true, allowed: false with a detector")


def scores(out: Path) -> list[float]:
    return [
        annotation["score"] for annotation in json.loads((out / "predictions.json").read_text())["annotations"]
    ]


def test_overlays_show_boxes(predict, images):
    out = predict(images)
    shown = cv2.imread(str(out / "overlays" / "one.jpg")).astype(int)
    plain = cv2.imread(str(images / "one.png")).astype(int)
    assert shown.shape == plain.shape
    assert (abs(shown - plain).max(2) > 60).mean() > 0.02
    small = predict(images, "overlay_size=64", out="small")
    assert cv2.imread(str(small / "overlays" / "sub" / "two.jpg")).shape == (54, 54, 3)  # 160 by 3


def test_a_stopped_prediction_is_joined(predict, images):
    out = predict(images)
    before = (out / "predictions.json").read_text()
    (out / "predictions.json").unlink()
    (out / "boxes" / "sub" / "two.json").unlink()
    assert predict(images) == out
    assert (out / "predictions.json").read_text() == before
    assert json.loads((out / "predict.json").read_text())["skipped"] == 1
