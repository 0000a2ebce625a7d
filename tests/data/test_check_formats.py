"""A survey of sets in every other format: objects are counted, sound files have nothing, broken ones are named."""

import json

import pytest
from box_files import annotation, coco, write
from geo_files import feature, geojson, geotiff, polygon, square, tags
from image_files import noise, save

from hires.data.checks.survey import Shown, survey
from hires.data.coco import CocoMasks
from hires.data.csv_boxes import CsvBoxes
from hires.data.geo_folder import GeoBoxes
from hires.data.labelme import LabelmeFolder, LabelmeMasks

SQUARE = [[10, 10], [20, 10], [20, 20], [10, 20]]


def surveyed(settings):
    return survey(settings, Shown((32, 32), "window", 1), lambda done, total: None)


def codes(result):
    return {one.code: one for one in result.findings if one.severity != "info"}


def counts(result):
    return {one.name: one.counts for one in result.classes}


@pytest.fixture
def usual(tmp_path):
    """Three noisy images of 40 x 60, the last of which is to evaluate."""
    for number in range(3):
        save(tmp_path / f"{number}.png", noise(40, 60, seed=number))
    return {"root": str(tmp_path), "splits": {"val": "2.png"}, "cache_gib": 0, "workers": 0}


def labelme(path, *labels, place="C:\\x.png"):
    shapes = [{"label": label, "points": SQUARE, "shape_type": "polygon"} for label in labels]
    content = {"version": "5.4.1", "shapes": shapes, "imagePath": place, "imageHeight": 40, "imageWidth": 60}
    return write(path, json.dumps(content))


@pytest.mark.parametrize("kind", [LabelmeFolder, LabelmeMasks])
def test_labelme(tmp_path, usual, kind):
    for number, labels in enumerate((["cat", "dog"], ["cat"], ["dog", "cat"])):
        labelme(tmp_path / f"{number}.json", *labels)
    settings = kind(images="*.png", annotations="*.json", **usual)
    result = surveyed(settings)
    assert codes(result) == {}
    assert counts(result) == {"cat": {"val": 1, "train": 2}, "dog": {"val": 1, "train": 1}}
    foreign = next(one for one in result.findings if one.code == "foreign-paths")
    assert (foreign.number, foreign.places[0]) == (3, ("0.json", ""))
    write(tmp_path / "0.json", "{")
    write(tmp_path / "1.json", json.dumps({"shapes": [{"label": "cat", "points": 7}]}))
    broken = codes(surveyed(settings))["unreadable-label"]
    assert [place.file for place in broken.places] == ["0.json", "1.json"]


def test_csv_of_all_images(tmp_path, usual):
    write(
        tmp_path / "all.csv",
        "0.png,1,2,30,20,dog\n0.png,1,2,30,20,dog\n1.png,50,2,70,20,cat\n2.png,5,6,17,18,cat\n",
    )
    result = surveyed(CsvBoxes(annotations="all.csv", **usual))
    assert counts(result) == {"cat": {"train": 1, "val": 1}, "dog": {"train": 1, "val": 0}}
    assert set(codes(result)) == {"box-twice", "box-over-edge"}
    write(tmp_path / "all.csv", "0.png,1,2,30,20,dog\n1.png,a,2,70,20,cat\n")
    assert codes(surveyed(CsvBoxes(annotations="all.csv", **usual)))["unreadable-label"].severity == "error"


def test_csv_for_each_split_with_an_image_in_both(tmp_path, usual):
    write(tmp_path / "a.csv", "0.png,1,2,30,20,dog\n1.png,5,6,17,18,cat\n")
    write(tmp_path / "b.csv", "1.png,5,6,17,18,cat\n2.png,5,6,17,18,dog\n")
    settings = CsvBoxes(annotations={"train": "a.csv", "val": "b.csv"}, **(usual | {"splits": {}}))
    found = codes(surveyed(settings))
    assert any("leak" in one.text and "1.png" in one.text for one in found.values())


def test_a_csv_hides_no_broken_image(tmp_path, usual):
    write(tmp_path / "all.csv", "0.png,1,2,30,20,dog\n1.png,5,6,17,18,cat\n2.png,5,6,17,18,cat\n")
    for name in ("0.png", "1.png"):
        (tmp_path / name).write_bytes(b"broken")
    found = codes(surveyed(CsvBoxes(annotations="all.csv", **usual)))
    assert [place.file for place in found["unreadable-image"].places] == ["0.png", "1.png"]


def test_geojson(tmp_path):
    for number, name in enumerate(("west", "east")):
        geotiff(tmp_path / f"images/{name}.tif", tags((500_000.0 + 30 * number, 5_000_000.0), 0.5))
    here = polygon(square(500_005.0, 4_999_995.0, 6.0))
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}
    geojson(tmp_path / "all.geojson", feature(here, kind="tree"), crs=crs)
    settings = GeoBoxes(
        root=str(tmp_path),
        images="images/*.tif",
        annotations="all.geojson",
        class_property="kind",
        splits={"val": "images/east.tif"},
        cache_gib=0,
        workers=0,
    )
    result = surveyed(settings)
    assert counts(result) == {"tree": {"train": 1, "val": 0}}
    write(tmp_path / "all.geojson", "{")
    broken = codes(surveyed(settings))
    assert [place.file for place in broken["unreadable-label"].places] == ["all.geojson"]


def test_masks_from_coco(tmp_path):
    for name in ("7.png", "9.png"):
        save(tmp_path / name, noise(40, 60, seed=int(name[0])))
    coco(tmp_path / "a.json", [annotation(1), annotation(2, image=90, category=8)])
    settings = CocoMasks(
        root=str(tmp_path), annotations="a.json", images=".", splits={"val": "9.png"}, cache_gib=0, workers=0
    )
    assert counts(surveyed(settings)) == {"cat": {"train": 1, "val": 0}, "dog": {"train": 0, "val": 1}}
