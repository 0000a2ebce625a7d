"""Reads real detection sets with their dirt: empty boxes, boxes over the edge, lists that name other files."""

import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from hires.data.label_folder import XyxyFolder, YoloFolder
from hires.data.voc import VocFolder
from hires.interfaces import DataError, Window

ROOT = Path(__file__).parents[2] / ".." / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data is not here"),
]
SPLITS = ("train", "val", "test")


def bccd(**changes):
    usual = {
        "root": str(ROOT / "bccd" / "BCCD"),
        "images": "JPEGImages/*.jpg",
        "annotations": "Annotations/*.xml",
        "splits": {split: f"ImageSets/Main/{split}.txt" for split in SPLITS},
        "cache_gib": 0,
    }
    return VocFolder(**(usual | changes))


def deeppcb(**changes):
    usual = {
        "root": str(ROOT / "deeppcb" / "PCBData"),
        "images": "*/*/*_test.jpg",
        "labels": "*/*_not/*.txt",
        "index_base": 1,
        "classes": ("open", "short", "mousebite", "spur", "copper", "pin-hole"),
        "splits": {"train": "trainval.txt", "val": "test.txt", "test": "test.txt"},
        "cache_gib": 0,
    }
    return XyxyFolder(**(usual | changes))


def aerial_cars(**changes):
    usual = {
        "root": str(ROOT / "aerial_cars"),
        "images": "*.*",
        "labels": "*.txt",
        "classes": "aerial.names",
        "splits": {"train": "subset_train.txt", "val": "subset_val.txt"},
        "cache_gib": 0,
    }
    return YoloFolder(**(usual | changes))


def totals(settings, *splits):
    """Objects by class over some splits."""
    counts = {}
    for source in map(settings.source, splits):
        for index in range(len(source)):
            for label in source.objects(index)["labels"]:
                counts[source.classes[label]] = counts.get(source.classes[label], 0) + 1
    return counts


def warnings(caplog):
    return [record.getMessage().split(": ", 1)[1] for record in caplog.records if record.levelname == "WARNING"]


def test_blood_cells(caplog):
    made = bccd()
    assert [len(made.source(split)) for split in SPLITS] == [100, 34, 34]
    caplog.clear()
    assert totals(made, *SPLITS) == {"RBC": 1937 - 2, "WBC": 171, "Platelets": 172}
    assert warnings(caplog) == [
        f"1 box(es) without area or upside down are left out: JPEGImages/BloodImage_00{number}.jpg"
        for number in (343, 338)
    ]
    assert made.source("test").classes == ("Platelets", "RBC", "WBC")


def test_circuit_boards(caplog):
    made = deeppcb()
    assert [len(made.source(split)) for split in ("train", "val")] == [56, 24]
    expected = {"open": 110, "short": 90, "mousebite": 97, "spur": 101, "copper": 80, "pin-hole": 75}
    assert totals(made, "train", "test") == expected
    assert warnings(caplog) == []
    source = made.source("train")
    assert source.category_ids == (1, 2, 3, 4, 5, 6)
    first = next(index for index in range(len(source)) if source.name(index).endswith("20085000_test.jpg"))
    target = source.objects(first)
    assert target["boxes"][:2].tolist() == [[409, 394, 435, 422], [275, 383, 319, 417]]
    assert target["labels"].tolist() == [2, 2, 3, 4, 5, 3]
    assert source.read(first)[0].shape == (640, 640, 3)


def test_cars_from_above(caplog):
    made = aerial_cars()
    with caplog.at_level(logging.INFO):
        assert [len(made.source(split)) for split in ("train", "val")] == [34, 7]
    assert warnings(caplog) == [
        "2 box(es) reach beyond their image and are clipped: MOS79.png, MOS92.png",
        "1 box(es) reach beyond their image and are clipped: MOS80.png",
    ]
    assert "no object of these images is truck, cyclist" in caplog.text
    assert totals(made, "train", "val") == {"car": 772, "minibus": 51, "bus": 48, "truck": 3}


def test_boxes_lie_on_cars_in_files_of_several_pictures():
    source = aerial_cars().source("train")
    index = next(index for index in range(len(source)) if source.name(index) == "DJI_0028.JPG")
    assert source.size(index) == (2250, 4000)
    whole = source.objects(index)
    assert len(whole["boxes"]) == 65
    image, target = source.read(index, Window(1000, 1500, 600, 800))
    assert image.shape == (600, 800, 3)
    x1, y1, x2, y2 = whole["boxes"].T
    inside = (x1 < 2300) & (x2 > 1500) & (y1 < 1600) & (y2 > 1000)
    assert 0 < inside.sum() < 65
    np.testing.assert_allclose(target["boxes"], whole["boxes"][inside] - [1500, 1000, 1500, 1000], atol=1e-3)


def test_the_source_s_own_lists(caplog):
    lists = {"train": "train3.txt", "val": "test3.txt"}
    with pytest.raises(DataError, match=r"train3.txt: 100 of 134 entries match no image"):
        aerial_cars(splits=lists).source("train")
    with pytest.raises(DataError, match=r"leak: 1 image\(s\) are in both 'train' and 'val': MOS164.png"):
        aerial_cars(splits=lists, missing_entries="skip").source("train")
    assert "34 entries name a folder that does not exist; they are found without it: aerial/" in caplog.text


def test_neighbouring_frames_leak():
    clips = r"^(DJI[-_]\d+|MOS\d+|Munich.*)"
    assert len(aerial_cars(groups=clips).source("val")) == 7
    with pytest.raises(DataError, match="leak: images of group 'DJI-00760'"):
        aerial_cars(groups=clips, splits={"val": "DJI-00760-0002*"}).source("val")


def test_a_label_file_that_lost_its_image(tmp_path, caplog):
    for name in ("MOS79.png", "MOS79.txt", "MOS80.txt", "aerial.names", "test3.txt"):
        shutil.copy(ROOT / "aerial_cars" / name, tmp_path)
    assert len(aerial_cars(root=str(tmp_path), splits={}, classes=None).source("train")) == 1
    assert warnings(caplog)[0] == "1 label(s) without image are not used: MOS80.txt"
