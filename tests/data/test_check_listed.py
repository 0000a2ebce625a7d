"""What a survey finds where files list images, and where one that is broken could hide others."""

import json

import numpy as np
import pytest
from box_files import annotation, coco, images, write
from geo_files import feature, geojson, geotiff, polygon, square, tags
from image_files import noise, save
from surveying import seen, surveyed

from hires.data.coco import CocoFolder
from hires.data.csv_boxes import CsvBoxes
from hires.data.geo_folder import GeoBoxes
from hires.data.instance_folder import InstanceFolder


def test_coco_files_of_splits(tmp_path):
    for name in ("7.png", "9.png"):
        save(tmp_path / "train" / name, noise(40, 60, seed=int(name[0])))
        save(tmp_path / "val" / name, noise(40, 60, seed=int(name[0])))
    coco(tmp_path / "train.json", [annotation(1), annotation(2, bbox=[55, 10, 10, 10]), annotation(3, category=8)])
    coco(tmp_path / "val.json", [annotation(1), annotation(2, bbox=[5, 5, 0, 3])])
    splits = {
        "annotations": {"train": "train.json", "val": "val.json"},
        "images": {"train": "train", "val": "val"},
    }
    settings = CocoFolder(root=str(tmp_path), **splits, cache_gib=0, workers=0)
    result = surveyed(settings)
    found = {one.code: one for one in result.findings}
    assert [(one.name, one.counts) for one in result.classes] == [
        ("cat", {"train": 2, "val": 1}),
        ("dog", {"train": 1, "val": 0}),
    ]
    assert {place.file for place in found["leak-copy"].places} == {"train/7.png", "train/9.png"}
    assert found["box-over-edge"].places[0].file == "train/7.png"
    assert found["box-without-area"].places[0].file == "val/7.png"
    assert found["names-recur"].number == 2


def test_a_coco_file_that_cannot_be_read_hides_no_broken_image(tmp_path):
    save(tmp_path / "7.png", noise(40, 60))
    (tmp_path / "9.png").write_bytes(b"broken")
    coco(tmp_path / "a.json", [annotation(1)])
    content = json.loads((tmp_path / "a.json").read_text())
    content["annotations"][0]["image_id"] = 4
    (tmp_path / "a.json").write_text(json.dumps(content))
    settings = CocoFolder(root=str(tmp_path), annotations="a.json", images=".", splits={}, cache_gib=0, workers=0)
    found = seen(settings)
    assert "annotation 1 is of image 4, which is not listed" in found["unreadable-label"].text
    assert [place.file for place in found["unreadable-image"].places] == ["9.png"]


@pytest.mark.parametrize("on_error", ["error", "skip"])
def test_an_image_that_is_broken_hides_no_boxes(tmp_path, on_error):
    """Whether or not a list names its image, and whether its header or only its pixels are broken."""
    for kind in ("json", "csv"):
        root = tmp_path / kind
        for number in range(5):
            save(root / f"{number}.png", noise(40, 60, seed=number))
        (root / "0.png").write_bytes(b"broken")
        (root / "1.png").unlink()
        images_of = [{"id": number, "file_name": f"{number}.png"} for number in range(5)]
        things = [annotation(number, image=number) for number in range(5)]
        coco(root / "a.json", things, images=images_of)
        write(root / "a.csv", "".join(f"{number}.png,1,1,20,20,cat\n" for number in range(5)))
        made = {"json": CocoFolder, "csv": CsvBoxes}[kind]
        settings = made(
            root=str(root), annotations=f"a.{kind}", splits={}, cache_gib=0, workers=0, on_error=on_error
        )
        result = surveyed(settings)
        found = {one.code: one for one in result.findings}
        assert {place.file for place in found["unreadable-image"].places} == {"0.png", "1.png"}
        assert found["unreadable-image"].severity == ("warning" if on_error == "skip" else "error")
        assert "unreadable-label" not in found
        assert result.classes[0].counts == {"train": 3}


def test_a_coco_file_whose_folder_is_another_says_so(tmp_path):
    images(tmp_path, "7.png")
    coco(tmp_path / "a.json", [annotation(1)])
    settings = {"annotations": "a.json", "images": "pictures", "splits": {}, "cache_gib": 0, "workers": 0}
    found = seen(CocoFolder(root=str(tmp_path), **settings))
    assert "set data.images to the folder" in found["unreadable-label"].text


def test_a_broken_image_is_no_broken_label(tmp_path):
    geotiff(tmp_path / "0.tif", tags((0, 0), 1))
    geotiff(tmp_path / "1.tif", tags((100, 0), 1))
    (tmp_path / "1.tif").write_bytes(b"II*\0broken")
    geojson(tmp_path / "a.geojson", feature(polygon(square(5, -15, 10))))
    usual = {"root": str(tmp_path), "cache_gib": 0, "workers": 0, "splits": {}}
    found = seen(GeoBoxes(images="*.tif", annotations="a.geojson", classes=("house",), **usual))
    assert [place.file for place in found["unreadable-image"].places] == ["1.tif"]
    assert "unreadable-label" not in found


def test_a_broken_image_beside_masks_of_objects(tmp_path):
    for number in range(3):
        save(tmp_path / "images" / f"{number}.png", noise(40, 60, seed=number))
        save(tmp_path / "masks" / f"{number}.png", np.eye(40, 60, dtype=np.uint8))
        (tmp_path / "images" / f"{number}.png").write_bytes(b"broken") if number else None
    (tmp_path / "masks" / "2.png").write_bytes(b"broken")
    usual = {"root": str(tmp_path), "cache_gib": 0, "workers": 0, "splits": {}}
    found = seen(InstanceFolder(images="images/*", masks="masks/*", classes=("cell",), **usual))
    assert [place.file for place in found["unreadable-image"].places] == ["images/1.png", "images/2.png"]
    assert [place.file for place in found["unreadable-label"].places] == ["masks/2.png"]
