"""`hires export` through the command line: the files, run by ONNX Runtime or torch, do what our models do."""

import json

import numpy as np
import pytest
import torch

from hires.engine.exporting import opened
from hires.interfaces import Batch
from tests.integration.test_autobatch import assert_schema
from tests.made_runs import CLASSES, images, made_run, suppressed

SEGMENTATION = {
    "unet": ("model.decoder_channels=[32,16,16,8,8]",),
    "fpn": ("model.pyramid_channels=32", "model.segmentation_channels=32"),
    "upernet": ("model.decoder_channels=32",),
    "deeplabv3plus": ("model.decoder_channels=32",),
    "segformer": ("model.decoder_channels=32",),
}
DETECTION = {
    "fcos": ("model.neck.channels=64", "model.head_convs=1"),
    "retinanet": ("model.neck.channels=32",),
    "faster_rcnn": ("model.neck.channels=32", "model.regions.hidden=64"),
    "mask_rcnn": (
        "model.neck.channels=32",
        "model.regions.hidden=64",
        "model.mask_convs=1",
        "model.mask_channels=32",
        "data.instance_masks=true",
    ),
}
MASKS = ("data=mask_folder", "data.root=gone", "data.classes=[background,disc,bar]", "data.splits={val: '*'}")
BOXES = (
    "data=coco",
    "data.root=gone",
    "data.annotations=a.json",
    "evaluation.score_threshold=0.2",
    "evaluation.nms_iou=0.3",
    "evaluation.max_detections=2000",
)
SIZES = ((64, 96), (96, 64), (160, 192))
NUMBERS = [float]
SCHEMA = {
    "command": str,
    "run_dir": str,
    "file": str,
    "format": str,
    "opset": (int, None),
    "bytes": int,
    "external_data": [str],
    "model": {
        "hires": str,
        "run": str,
        "checkpoint": str,
        "classes": [str],
        "input": {
            "name": str,
            "type": str,
            "layout": str,
            "channels": int,
            "colours": str,
            "values": str,
            "padding": str,
        },
        "stride": int,
        "normalization": {
            "inside": bool,
            "dtype": str,
            "low": (list, None),
            "high": (list, None),
            "shift": NUMBERS,
            "scale": NUMBERS,
        },
        "outputs": dict,
        "detection": ({"score": float, "candidates": int, "iou": float, "most": int}, None),
        "multilabel": (bool, None),
        "takes": {"batch": (int, None), "height": (int, None), "width": (int, None), "least": (int, None)},
    },
    "checked": {
        "with": str,
        "limit": float,
        "difference": float,
        "compared": int,
        "unmatched": int,
        "sizes": [{"shape": [int], "difference": float, "compared": int, "unmatched": int}],
    },
    "seconds": float,
    "notes": [str],
}


@pytest.fixture
def onnx():
    for name in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'hires[onnx]'")


@pytest.fixture
def run_dir(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def export(hires, run_dir):
    """Exports the run and gives export.json, after a look at it."""

    def run(*overrides: str) -> dict:
        code, _, error = hires("export", f"run={run_dir}", *overrides)
        assert code == 0, error
        (path,) = run_dir.glob("export/*/export.json")
        outcome = json.loads(path.read_text())
        assert_schema(outcome, SCHEMA)
        assert {file.name for file in path.parent.iterdir()} == {path.name, outcome["file"].rpartition("/")[2]}
        assert len(outcome["checked"]["sizes"]) == 3
        return outcome

    return run


def model(name: str, many: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return (f"model={name}", *many[name])


def session(outcome: dict):
    import onnxruntime

    found = onnxruntime.InferenceSession(outcome["file"], providers=["CPUExecutionProvider"])
    assert json.loads(found.get_modelmeta().custom_metadata_map["hires"]) == outcome["model"]
    return found


def slow_but(names: dict, quick: str) -> list:
    return [name if name == quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", slow_but(SEGMENTATION, "unet"))
def test_segmentation_in_onnx_runtime(onnx, export, run_dir, name):
    task = made_run(run_dir, *model(name, SEGMENTATION), *MASKS)
    outcome = export()
    assert outcome["model"]["takes"] == {"batch": None, "height": None, "width": None, "least": 64}
    assert (outcome["model"]["classes"], outcome["model"]["stride"]) == (list(CLASSES), 32)
    found = session(outcome)
    for number, size in enumerate(SIZES):
        pixels = images(1 + number % 2, size, seed=7)
        with torch.no_grad():
            wanted = task.predict(Batch(pixels, []))
        (got,) = found.run(["probabilities"], {"images": pixels.float().numpy()})
        assert float(wanted.std()) > 0.01, "the network says something"
        np.testing.assert_allclose(got, wanted.numpy(), atol=1e-3, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", DETECTION)
def test_detection_in_onnx_runtime(onnx, export, run_dir, name):
    task = made_run(run_dir, *model(name, DETECTION), *BOXES)
    outcome = export()
    assert outcome["model"]["takes"] == {
        "batch": 1,
        "height": None,
        "width": None,
        "least": task.network.neck.strides[-1] + 32,
    }
    assert outcome["model"]["classes"] == list(CLASSES)
    found = session(outcome)
    for size in ((160, 192), (192, 160), (160, 320)):
        pixels = images(1, size, seed=7)
        with torch.no_grad():
            wanted, dropped = task.predict(Batch(pixels, []))[0], suppressed(task, pixels)
        got = dict(
            zip(outcome["model"]["outputs"], found.run(None, {"images": pixels.float().numpy()}), strict=True)
        )
        assert min(dropped, len(wanted.scores)) >= 5
        assert len(set(wanted.scores.tolist())) > 0.9 * len(wanted.scores), "there are hardly any ties"
        np.testing.assert_array_equal(got["labels"], wanted.labels.numpy())
        np.testing.assert_allclose(got["scores"], wanted.scores.numpy(), atol=1e-3, rtol=0)
        np.testing.assert_allclose(got["boxes"], wanted.boxes.numpy(), atol=1e-3, rtol=1e-5)
        if name == "mask_rcnn":
            np.testing.assert_allclose(got["masks"], wanted.masks.numpy(), atol=1e-3, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fcos", "mask_rcnn"])
def test_detection_by_torch_export(export, run_dir, name):
    task = made_run(run_dir, *model(name, DETECTION), *BOXES)
    outcome = export("format=torch_export")
    coarsest = task.network.neck.strides[-1]
    assert outcome["model"]["takes"] == {"batch": 1, "height": None, "width": None, "least": coarsest + 32}
    assert outcome["checked"]["compared"] > 30
    assert outcome["checked"]["unmatched"] <= 0.01 * outcome["checked"]["compared"]


def test_torch_export_of_classes_from_normalised_pixels(export, run_dir):
    task = made_run(run_dir, *model("fpn", SEGMENTATION), *MASKS)
    outcome = export("format=torch_export", "output=classes", "normalize=false")
    assert outcome["opset"] is None
    assert outcome["model"]["takes"] == {"batch": None, "height": None, "width": None, "least": 64}
    run = opened(outcome["file"], "torch_export")
    described = outcome["model"]["normalization"]
    shift, scale = (torch.tensor(described[key])[:, None, None] for key in ("shift", "scale"))
    for size in ((64, 96), (128, 64)):
        pixels = images(2, size, seed=7)
        with torch.no_grad():
            wanted = task.predict(Batch(pixels, [])).argmax(1)
        (got,) = run((pixels - shift) / scale)
        assert got.dtype == torch.uint8
        assert len(wanted.unique()) > 1
        assert float((got != wanted).float().mean()) < 1e-3
