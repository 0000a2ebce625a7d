"""A short training and an evaluation on each format of labels, through the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.data.geo_files import feature, geojson, polygon, square, tags

IMAGES, SIZE = 4, (96, 128)
BOXES = [(10, 12, 34, 40), (60, 20, 92, 44), (30, 60, 54, 84)]
KINDS = ("roof", "tree", "roof")
VAL = "data.splits={val: '**/3.*'}"

DETECTION = ["model=fcos", "model.neck.channels=64", "model.head_convs=1"]
SEGMENTATION = ["model.decoder_channels=[16,16,8,8,8]"]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory) -> Path:
    """Images with three rectangles each, and the same labels in every format."""
    root = tmp_path_factory.mktemp("scenes")
    for folder in ("images", "geo", "masks", "ids", "parts"):
        (root / folder).mkdir()
    features, rows, entries, annotations = [], ["path,x1,y1,x2,y2,label"], [], []
    for index in range(IMAGES):
        image, ids = scene(index)
        corner = (1000.0 * index, 5000.0)
        Image.fromarray(image).save(root / f"images/{index}.png")
        tifffile.imwrite(root / f"geo/{index}.tif", image, photometric="rgb", extratags=tags(corner, 1.0))
        Image.fromarray(ids).save(root / f"ids/{index}.png")
        for number in np.unique(ids[ids > 0]):
            part = Image.fromarray((ids == number).astype(np.uint8) * 255)
            part.save(root / f"parts/{index}_{'roof' if number < 2000 else 'tree'}_{number}.png")
        Image.fromarray((ids > 0).astype(np.uint8) * 255).save(root / f"masks/{index}.png")
        entries.append({"id": index + 1, "file_name": f"images/{index}.png"})
        for number, ((x1, y1, x2, y2), kind) in enumerate(zip(BOXES, KINDS, strict=True)):
            rows.append(f"images/{index}.png,{x1},{y1},{x2},{y2},{kind}")
            ring = square(corner[0] + x1, corner[1] - y1, 1.0)
            ring = [
                [ring[0][0] + (x > ring[0][0]) * (x2 - x1), ring[0][1] - (y < ring[0][1]) * (y2 - y1)]
                for x, y in ring
            ]
            features.append(feature(polygon(ring), kind=kind))
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": index + 1,
                    "category_id": 1 + (kind == "tree"),
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "segmentation": [[x1, y1, x2, y1, x2, y2, x1, y2]],
                    "number": number,
                }
            )
        shapes = [
            {"label": kind, "points": [box[:2], box[2:]], "shape_type": "rectangle"}
            for box, kind in zip(BOXES, KINDS, strict=True)
        ]
        (root / f"images/{index}.json").write_text(json.dumps({"shapes": shapes}))
    geojson(root / "all.geojson", *features)
    (root / "all.csv").write_text("\n".join(rows))
    categories = [{"id": 1, "name": "roof"}, {"id": 2, "name": "tree"}]
    content = {"images": entries, "annotations": annotations, "categories": categories}
    (root / "all.json").write_text(json.dumps(content))
    return root


def scene(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(H, W, 3) with bright and dark rectangles, and (H, W) ids: 1001, 2002, 1003."""
    image = np.random.default_rng(seed).integers(90, 130, (*SIZE, 3), np.uint8)
    ids = np.zeros(SIZE, np.uint16)
    for number, ((x1, y1, x2, y2), kind) in enumerate(zip(BOXES, KINDS, strict=True), 1):
        image[y1:y2, x1:x2] = 230 if kind == "roof" else 20
        ids[y1:y2, x1:x2] = (1000 if kind == "roof" else 2000) + number
    return image, ids


FORMATS = {
    "csv": [*DETECTION, "data.annotations=all.csv"],
    "labelme": [*DETECTION, "data.images=images/*", "data.annotations=images/*.json"],
    "geojson": [*DETECTION, "data.images=geo/*.tif", "data.annotations=all.geojson", "data.class_property=kind"],
    "instance_masks": [*DETECTION, "data.masks=ids/*", "data.divisor=1000", "data.classes={roof: 1, tree: 2}"],
    "mask_parts": [
        *SEGMENTATION,
        "data.images=images/*.png",
        "data.classes={roof: 'parts/*_roof_*', tree: 'parts/*_tree_*'}",
    ],
    "labelme_masks": [*SEGMENTATION, "data.images=images/*", "data.annotations=images/*.json"],
    "coco_masks": [*SEGMENTATION, "data.annotations=all.json", "data.images=."],
    "geojson_masks": [
        *SEGMENTATION,
        "data.images=geo/*.tif",
        "data.annotations=all.geojson",
        "data.class_property=kind",
    ],
}


def overrides(scenes: Path, run: Path, name: str, options: list[str]) -> list[str]:
    return [
        f"data={name}",
        f"data.root={scenes}",
        *options,
        VAL,
        "data.workers=0",
        "backbone.name=test_resnet",
        "backbone.pretrained=false",
        "image_size=64",
        "batch_size=2",
        "trainer.max_steps=2",
        "trainer.log_every=1",
        "trainer.accelerator=cpu",
        "scheduler.warmup_steps=1",
        "evaluation.every=null",
        f"run_dir={run}",
    ]


QUICK = ("csv", "mask_parts", "geojson_masks")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FORMATS]
)
def test_trains_and_evaluates(hires, scenes, tmp_path, name):
    code, _, error = hires("train", *overrides(scenes, tmp_path / "run", name, FORMATS[name]))
    assert code == 0, error
    trained = json.loads((tmp_path / "run/result.json").read_text())["metrics"]
    classes = {key.partition("/")[2] for key in trained if key.startswith(("IoU/", "AP50/"))}
    assert classes == {"roof", "tree"} | (
        {"background"} if name in ("mask_parts", "labelme_masks", "coco_masks", "geojson_masks") else set()
    )
    code, _, error = hires("evaluate", f"run={tmp_path / 'run'}", "checkpoint=last")
    assert code == 0, error
    assert json.loads((tmp_path / "run/evaluate/val-last/result.json").read_text())["metrics"] == trained


def test_instance_masks_are_learnt_from_masks_of_ids(hires, scenes, tmp_path):
    options = ["data.masks=masks/*", "data.parts=apart", "data.classes=[thing]", "model=mask_rcnn"]
    small = ["model.regions.samples=16", "model.regions.hidden=32", "model.neck.channels=64"]
    code, _, error = hires("train", *overrides(scenes, tmp_path / "run", "instance_masks", [*options, *small]))
    assert code == 0, error
    assert "mask_AP" in json.loads((tmp_path / "run/result.json").read_text())["metrics"]


def test_a_broken_label_is_named(hires, scenes, tmp_path):
    (scenes / "broken.csv").write_text("images/0.png,1,2,x,4,roof\n")
    options = [*DETECTION, "data.annotations=broken.csv"]
    code, _, error = hires("train", *overrides(scenes, tmp_path / "run", "csv", options))
    assert code == 1
    assert error.strip().splitlines()[-1].endswith("['1', '2', 'x', '4'] are not four numbers, x1 y1 x2 y2")
    assert f"{scenes / 'broken.csv'}:1" in error
    assert "Traceback" not in error
