"""Polygons of a map become boxes and masks of the images that lie there."""

import logging

import numpy as np
import pytest
from box_files import images, write
from geo_files import (
    KEYS,
    SCALE,
    TIEPOINT,
    TRANSFORMATION,
    UTM33,
    feature,
    geojson,
    geotiff,
    keys,
    polygon,
    square,
    tags,
)

from hires.data.geo_folder import GeoBoxes, GeoMasks
from hires.data.geo_tiff import read_georeference, transformed
from hires.data.settings import WindowSettings
from hires.interfaces import DataError, Window
from hires.settings import SettingError

X, Y, PIXEL = 500_000.0, 5_000_000.0, 0.5  # 40 x 60 pixels are 20 x 30 metres


@pytest.fixture
def usual(folder):
    """Two images side by side: west from X to X + 30, east from there to X + 60."""
    geotiff(folder / "images/west.tif", tags((X, Y), PIXEL))
    geotiff(folder / "images/east.tif", tags((X + 30, Y), PIXEL))
    settings = {"root": str(folder), "images": "images/*.tif", "annotations": "all.geojson"}
    return settings | {"class_property": "kind", "splits": {}, "cache_gib": 0}


@pytest.fixture
def boxes(usual):
    return lambda **changes: GeoBoxes(**(usual | changes))


@pytest.fixture
def masks(usual):
    return lambda **changes: GeoMasks(**(usual | changes))


def content(source):
    found = {}
    for index in range(len(source)):
        target = source.objects(index)
        found[source.name(index)] = [
            (source.classes[label], box, ignored)
            for label, box, ignored in zip(
                target["labels"], target["boxes"].tolist(), target["ignored"].tolist(), strict=True
            )
        ]
    return found


def test_one_file_for_many_images(folder, boxes, caplog):
    """Features are clipped to each image without a word; one that shows too little of itself is ignored."""
    geojson(
        folder / "all.geojson",
        feature(polygon(square(X + 1, Y - 2, 5)), kind="roof"),
        feature(polygon(square(X + 28, Y - 5, 10)), kind="tree"),  # a fifth of it in the west
        feature(polygon(square(X + 70, Y, 5)), kind="lake"),
        crs=UTM33,
    )
    with caplog.at_level(logging.WARNING):
        source = boxes().source("train")
    assert source.classes == ("lake", "roof", "tree")
    assert content(source) == {
        "images/west.tif": [("roof", [2, 4, 12, 14], False), ("tree", [56, 10, 60, 30], True)],
        "images/east.tif": [("tree", [0, 10, 16, 30], False)],
    }
    assert not caplog.records


def test_masks_and_holes(folder, boxes, masks):
    ring = polygon(square(X, Y, 10), square(X + 2, Y - 2, 4))
    both = {
        "type": "MultiPolygon",
        "coordinates": [ring["coordinates"], polygon(square(X + 20, Y, 3))["coordinates"]],
    }
    geojson(folder / "all.geojson", feature(both, kind="roof"), feature(polygon(square(X + 2, Y - 2, 1)), kind=7))
    expected = np.zeros((40, 60), np.uint8)
    expected[:20, :20], expected[4:12, 4:12], expected[:6, 40:46] = 2, 0, 2
    found = boxes(instance_masks=True).source("train").read(1)[1]
    assert found["boxes"].tolist() == [[0, 0, 46, 20], [4, 4, 6, 6]]
    assert [mask.mask.sum() for mask in found["masks"]] == [(expected == 2).sum(), 4]
    source = masks().source("train")
    assert source.classes == ("background", "7", "roof")
    expected[4:6, 4:6] = 1
    np.testing.assert_array_equal(source.mask(1), expected)
    np.testing.assert_array_equal(source.read(1, Window(3, 2, 9, 50))[1]["mask"], expected[3:12, 2:52])
    assert not source.mask(0).any()
    merged = masks(classes={"thing": ["roof", 7]}, background="ground").source("train")
    assert (merged.classes, int(merged.mask(1).sum())) == (("ground", "thing"), int((expected > 0).sum()))


def test_a_file_for_each_image(folder, boxes):
    geojson(folder / "labels/west.json", feature(polygon(square(X + 1, Y - 2, 5)), kind="roof"))
    made = {"annotations": "labels/*.json"}
    with pytest.raises(DataError, match=r"1 image\(s\) without annotation: images/east.tif"):
        boxes(**made).source("train")
    found = content(boxes(**made, missing_labels="negative").source("train"))
    assert found == {"images/west.tif": [("roof", [2, 4, 12, 14], False)], "images/east.tif": []}


def test_one_class_without_property(folder, boxes):
    geojson(folder / "all.geojson", feature(polygon(square(X, Y, 5))))
    source = boxes(class_property=None, classes=["roof"]).source("train")
    assert content(source)["images/west.tif"] == [("roof", [0, 0, 10, 10], False)]
    for given in (None, ["a", "b"], {"a": "b"}):
        with pytest.raises(SettingError, match=r"classes: .*\[NAME\] of the one class, as class_property is null"):
            boxes(class_property=None, classes=given)


def test_what_has_no_area_is_counted(folder, boxes, caplog):
    line = {"type": "LineString", "coordinates": [[X, Y], [X, Y - 1]]}
    parts = {"type": "GeometryCollection", "geometries": [line, polygon(square(X, Y, 1))]}
    geojson(folder / "all.geojson", feature(None), feature(line), feature(parts, kind="a"), feature(line))
    assert content(boxes().source("train"))["images/west.tif"] == [("a", [0, 0, 2, 2], False)]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "3 feature(s) of type LineString have no area and are left out: images/east.tif",
        "1 feature(s) of type null have no area and are left out: images/east.tif",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "urn:ogc:def:crs:EPSG::32633",
        "EPSG:32633",
        "urn:ogc:def:crs:EPSG:6.18:32633",
        "urn:x-ogc:def:crs:EPSG:32633",
    ],
)
def test_names_of_coordinate_systems(folder, boxes, name):
    crs = {"type": "name", "properties": {"name": name}}
    geojson(folder / "all.geojson", feature(polygon(square(X, Y, 5)), kind="a"), crs=crs)
    assert len(content(boxes().source("train"))["images/west.tif"]) == 1


@pytest.mark.parametrize(
    ("crs", "problem"),
    [
        ({"properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}, "is in EPSG:4326, its image .* in EPSG:32633"),
        ({"properties": {"name": "EPSG:32632"}}, "is in EPSG:32632, .*ogr2ogr -t_srs EPSG:32633"),
        ({"properties": {"name": "local grid"}}, "names the coordinate system 'local grid'"),
        ({"properties": 3}, "names the coordinate system None"),
        (7, "names the coordinate system None"),
    ],
)
def test_other_coordinate_systems(folder, boxes, crs, problem):
    geojson(folder / "all.geojson", feature(polygon(square(X, Y, 5)), kind="a"), crs=crs)
    with pytest.raises(DataError, match=f"all.geojson: {problem}"):
        boxes().source("train")


def test_degrees_and_images_that_name_no_system(folder, boxes):
    geotiff(folder / "images/west.tif", tags((15.0, 48.0), 1e-5, epsg=4326))
    geotiff(folder / "images/east.tif", tags((15.0, 48.0), 1e-5, epsg=None))
    crs84 = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    geojson(folder / "all.geojson", feature(polygon(square(15.0001, 47.9999, 1e-4)), kind="a"), crs=crs84)
    for found in content(boxes().source("train")).values():
        np.testing.assert_allclose(found[0][1], [10, 10, 20, 20], atol=1e-3)


def test_features_of_another_place(folder, boxes):
    geojson(folder / "all.geojson", feature(polygon(square(15, 48, 1)), kind="a"))
    with pytest.raises(
        DataError, match=r"none of 1 feature\(s\) lies in any image: .*x 15 to 16.*x 500000 to 500060"
    ):
        boxes().source("train")
    geojson(folder / "all.geojson")
    assert not any(content(boxes(classes=["a"]).source("train")).values())
    geojson(
        folder / "all.geojson", feature(polygon(square(X, Y, 5)), kind="a")
    )  # in the west: the east may be bare
    assert content(boxes(splits={"val": "*/east*"}).source("val")) == {"images/east.tif": []}


def matrix(*rows):
    return [(TRANSFORMATION, 12, 16, (*rows[0], *rows[1], 0, 0, 0, 0, 0, 0, 0, 1), True)]


@pytest.mark.parametrize(
    ("extratags", "points"),
    [
        (tags((X, Y), 0.5), [[X, Y], [X + 5, Y - 10]]),
        (tags((X, Y), 0.5, point=True), [[X - 0.25, Y + 0.25], [X + 4.75, Y - 9.75]]),
        (matrix((0, 2, 0, 10), (3, 0, 0, 20)), [[10, 20], [50, 50]]),
        (
            [(SCALE, 12, 3, (2.0, 3.0, 0.0), True), (TIEPOINT, 12, 6, (4.0, 5.0, 0.0, 100.0, 200.0, 0.0), True)],
            [[92, 215], [112, 155]],
        ),
    ],
)
def test_georeferences(tmp_path, extratags, points):
    """Where the pixels (0, 0) and (10, 20) lie, and back."""
    place = read_georeference(geotiff(tmp_path / "a.tif", extratags))
    pixels = np.array([[0.0, 0], [10, 20]])
    np.testing.assert_allclose(transformed(pixels, place.to_map), points)
    np.testing.assert_allclose(transformed(np.array(points, float), place.to_pixels), pixels, atol=1e-6)


@pytest.mark.parametrize(
    ("extratags", "problem"),
    [
        ([], "has no georeference .*none of them"),
        ([(TIEPOINT, 12, 6, (0.0,) * 6, True)], "has no georeference .*only tie points"),
        (tags((X, Y), 0.0), "cannot be inverted"),
        (tags((float("nan"), Y), 1.0), "cannot be inverted"),
        (matrix((1, 1, 0, 0), (1, 1, 0, 0)), "cannot be inverted"),
        ([*tags((X, Y), 1.0), (274, 3, 1, 6, True)], "orientation"),
    ],
)
def test_images_that_lie_nowhere(folder, boxes, extratags, problem):
    geotiff(folder / "images/west.tif", extratags)
    geojson(folder / "all.geojson", feature(polygon(square(X, Y, 5)), kind="a"))
    with pytest.raises(DataError, match=f"west.tif: .*{problem}"):
        boxes().source("train")
    images(folder, "images/west.tif")
    with pytest.raises(DataError, match="west.tif: has no georeference"):
        boxes().source("train")
    images(folder, "images/x.png")
    with pytest.raises(DataError, match="x.png: cannot be read as a GeoTIFF"):
        boxes(images="images/*.png").source("train")


def test_codes_that_are_none_are_passed_over(tmp_path):
    extratags = [*tags((X, Y), 1.0)[:2], (KEYS, 3, 20, (*keys(32767), 5, 6, 7, 8), True)]
    assert read_georeference(geotiff(tmp_path / "a.tif", extratags)).epsg is None


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (3, "is 3, expected one with type Feature"),
        ({"type": "Point"}, "expected one with type Feature"),
        (
            feature(polygon(square(X, Y, 1))),
            r"has no class: data.class_property=kind is not there \(it has none\)",
        ),
        (feature(polygon(square(X, Y, 1)), kind=None), "data.class_property=kind is None"),
        (feature(polygon(square(X, Y, 1)), kind=["a"]), r"data.class_property=kind is \['a'\]"),
        (feature({"type": "Polygon"}, kind="a"), "is no list of rings"),
        (feature({"type": "Polygon", "coordinates": [[[X, Y]]]}, kind="a"), "less than three points"),
        (feature({"type": "Polygon", "coordinates": [[X, Y]]}, kind="a"), "has the point 500000.0, expected"),
        (feature({"type": "Polygon", "coordinates": [[[X, None]]]}, kind="a"), "has the point"),
        (feature({"type": "Polygon", "coordinates": [[[X, float("nan")]]]}, kind="a"), "has the point"),
        (feature({"type": "MultiPolygon", "coordinates": 3}, kind="a"), "is no list"),
        (feature({"type": "Circle"}, kind="a"), "has the geometry"),
        (feature(7, kind="a"), "has the geometry 7"),
        (feature({"type": "GeometryCollection", "geometries": 1}, kind="a"), "has the geometry"),
    ],
)
def test_broken_features_are_named(folder, boxes, entry, problem):
    geojson(folder / "all.geojson", feature(polygon(square(X, Y, 5)), kind="a"), entry)
    with pytest.raises(DataError, match=f"all.geojson: feature 2 .*{problem}"):
        boxes().source("train")


@pytest.mark.parametrize("text", ["[]", '{"type": "Topology"}', '{"type": "FeatureCollection", "features": {}}'])
def test_files_of_others(folder, boxes, text):
    write(folder / "all.geojson", text)
    with pytest.raises(DataError, match="all.geojson: is no FeatureCollection"):
        boxes().source("train")


def test_a_feature_around_everything(folder, boxes):
    """Coordinates that no image can have are clipped as long as they are finite in pixels."""
    geojson(
        folder / "all.geojson",
        feature(polygon([[-1e15, -1e15], [1e15, -1e15], [1e15, 1e15], [-1e15, 1e15]]), kind="a"),
    )
    found = content(boxes(window=WindowSettings(min_visibility=0)).source("train"))
    np.testing.assert_allclose(found["images/west.tif"][0][1], [0, 0, 60, 40], atol=2)
    geojson(
        folder / "all.geojson", feature(polygon([[-1e308, -1e308], [1e308, -1e308], [1e308, 1e308]]), kind="a")
    )
    with pytest.raises(DataError, match="all.geojson: feature 1 reaches infinitely far"):
        boxes().source("train")
