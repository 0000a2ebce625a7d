"""Real sets in other formats than their own: the same objects come back; masks of defects become boxes."""

import csv
import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from hires.data.csv_boxes import CsvBoxes
from hires.data.instance_folder import InstanceFolder
from hires.data.labelme import LabelmeFolder
from hires.data.voc import VocFolder, read_voc

ROOT = Path(__file__).parents[2] / ".." / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data is not here"),
]
SPLITS = {"train": "JPEGImages/*"}


def bccd() -> VocFolder:
    annotations = {"images": "JPEGImages/*.jpg", "annotations": "Annotations/*.xml"}
    return VocFolder(root=str(ROOT / "bccd" / "BCCD"), **annotations, splits=SPLITS, cache_gib=0)


def same(source, other) -> None:
    assert (len(source), source.classes) == (len(other), other.classes)
    for index in range(len(source)):
        assert source.name(index) == other.name(index)
        mine, theirs = source.objects(index), other.objects(index)
        np.testing.assert_array_equal(mine["boxes"], theirs["boxes"])
        np.testing.assert_array_equal(mine["labels"], theirs["labels"])


def test_bccd_as_csv(tmp_path, caplog):
    settings = bccd()
    (tmp_path / "JPEGImages").symlink_to(ROOT.resolve() / "bccd" / "BCCD" / "JPEGImages")
    with (tmp_path / "all.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        for pair in settings.pairs():
            objects = read_voc(settings.root_path() / pair.truth).objects
            writer.writerows([pair.image, *thing.box, thing.name] for thing in objects)
    found = CsvBoxes(root=str(tmp_path), annotations="all.csv", splits=SPLITS, cache_gib=0).source("train")
    assert "2 box(es) without area or upside down are left out" in caplog.text
    same(found, settings.source("train"))


def test_bccd_as_labelme(tmp_path):
    settings = bccd()
    (tmp_path / "JPEGImages").symlink_to(ROOT.resolve() / "bccd" / "BCCD" / "JPEGImages")
    for pair in settings.pairs():
        objects = read_voc(settings.root_path() / pair.truth).objects
        shapes = [
            {"label": thing.name, "shape_type": "rectangle", "points": [thing.box[2:], thing.box[:2]]}
            for thing in objects
        ]
        (tmp_path / f"{Path(pair.truth).stem}.json").write_text(json.dumps({"shapes": shapes}))
    paired = {"images": "JPEGImages/*.jpg", "annotations": "*.json"}
    same(
        LabelmeFolder(root=str(tmp_path), **paired, splits=SPLITS, cache_gib=0).source("train"),
        settings.source("train"),
    )


def test_defects_of_magnetic_tiles_are_what_hangs_together(tmp_path):
    """Soft masks, cut at 127: as many objects, of as many pixels, as OpenCV finds."""
    settings = InstanceFolder(
        root=str(ROOT / "magnetic_tile"),
        images="**/*.jpg",
        masks="**/*.png",
        classes=["defect"],
        parts="apart",
        threshold=127,
        splits={},
        instance_masks=True,
        cache_dir=str(tmp_path),
    )
    source = settings.source("train")
    assert len(source) == 120
    for index in range(len(source)):
        mask = cv2.imread(str(source.path(index).with_suffix(".png")), cv2.IMREAD_GRAYSCALE) > 127
        count, _, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
        target = source.objects(index)
        assert sorted(target["areas"].tolist()) == sorted(stats[1:, cv2.CC_STAT_AREA].tolist())
        assert len(target["boxes"]) == count - 1
