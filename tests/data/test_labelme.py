"""labelme's shapes become boxes, masks of objects, and masks of classes."""

import json
import logging

import numpy as np
import pytest
from box_files import images, write

from hires.data.labelme import LabelmeFolder, LabelmeMasks
from hires.interfaces import IGNORE, DataError, Window
from hires.settings import SettingError

SQUARE = [[10, 10], [20, 10], [20, 20], [10, 20]]


def shape(label, points=SQUARE, kind="polygon", **more):
    return {"label": label, "points": points, "shape_type": kind, "group_id": None, "flags": {}} | more


def labelme(path, *shapes, **changes):
    content = {
        "version": "5.4.1",
        "flags": {},
        "shapes": list(shapes),
        "imagePath": "C:\\x.png",
        "imageData": None,
    }
    return write(path, json.dumps(content | {"imageHeight": 40, "imageWidth": 60} | changes))


@pytest.fixture
def usual(folder):
    images(folder, "a.png", "b/a.png")
    labelme(folder / "b/a.json", shape("dog"))
    settings = {"root": str(folder), "images": "**/*", "annotations": "**/*.json"}
    return settings | {"splits": {"val": "b/*"}, "cache_gib": 0}


@pytest.fixture
def boxes(usual):
    return lambda **changes: LabelmeFolder(**(usual | changes))


@pytest.fixture
def masks(usual):
    return lambda **changes: LabelmeMasks(**(usual | changes))


def test_shapes_become_boxes_and_masks(folder, boxes):
    labelme(
        folder / "a.json",
        shape("cat", [[0, 0], [10, 0], [10.5, 30]]),
        shape("cat", [[30, 25], [20, 5]], "rectangle"),
        shape(" 7 ", [[50, 20], [50, 26]], "circle"),
        {"label": 7, "points": SQUARE},  # files of old versions name no type
    )
    source = boxes(instance_masks=True).source("train")
    assert (source.classes, source.category_ids) == (("7", "cat", "dog"), (1, 2, 3))
    target = source.read(0)[1]
    np.testing.assert_allclose(
        target["boxes"], [[0, 0, 10.5, 30], [20, 5, 30, 25], [44, 14, 56, 26], [10, 10, 20, 20]], atol=0.1
    )
    assert target["labels"].tolist() == [1, 1, 0, 0]
    assert [mask.mask.sum() for mask in target["masks"][1::2]] == [200, 100]
    assert target["masks"][2].mask.sum() == pytest.approx(36 * np.pi, rel=0.05)
    assert "masks" not in boxes().source("train").read(0)[1]


def test_shapes_of_a_group_are_one_object(folder, boxes):
    far = [[40, 10], [50, 10], [50, 20], [40, 20]]
    given = [shape("cat", group_id=1), shape("cat", far, group_id=1), shape("dog", far, group_id=1), shape("cat")]
    labelme(folder / "a.json", *given)
    target = boxes(instance_masks=True).source("train").read(0)[1]
    assert target["boxes"].tolist() == [[10, 10, 50, 20], [40, 10, 50, 20], [10, 10, 20, 20]]
    assert [mask.mask.sum() for mask in target["masks"]] == [200, 100, 100]


def test_shapes_without_area_are_counted(folder, boxes, caplog):
    lines = [shape("a", SQUARE, "linestrip"), shape("a", SQUARE, "linestrip"), shape("b", [[1, 1]], "point")]
    labelme(folder / "a.json", *lines, shape("cat"), shape("cat", [[1, 1], [2, 2]], "mask"), imageHeight=41)
    source = boxes().source("train")
    assert source.objects(0)["labels"].tolist() == [0]
    told = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert told == [
        "2 shape(s) of type linestrip have no outline and are left out: a.png",
        "1 shape(s) of type mask have no outline and are left out: a.png",
        "1 shape(s) of type point have no outline and are left out: a.png",
        "1 image(s) have another size than their annotations say, whose boxes are taken as they are: a.png",
    ]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (3, "is 3, expected keys"),
        (shape(None), "has no label"),
        (shape("\ud800"), "has no label"),
        (shape("x", [[0, 0], [1, 1]]), r"\(x\): has a polygon of 2 point"),
        (shape("x", SQUARE[:1], "rectangle"), r"\(x\): has a rectangle of 1 point"),
        (shape("x", SQUARE, "circle"), r"\(x\): has a circle of 4 point"),
        (shape("x", SQUARE, "star"), "has shape_type 'star'"),
        (shape("x", "y"), "has no list of points"),
        (shape("x", [[0, 0], [1, None], [2, 2]]), r"has the point \[1, None\]"),
        (shape("x", [[0, 0], [1, float("inf")], [2, 2]]), r"has the point \[1, inf\]"),
        (shape("x", [[0, 0], [1, 1e30], [2, 2]]), "far outside"),
        (shape("x", SQUARE, ["polygon"]), "has shape_type"),
    ],
)
def test_broken_shapes_are_named_and_their_neighbours_count(folder, boxes, entry, problem):
    labelme(folder / "a.json", shape("cat"), entry)
    with pytest.raises(DataError, match=f"a.json: shape 2.*{problem}"):
        boxes(splits={}).source("train")
    sound = boxes(splits={}, on_error="skip").source("train")
    assert [sound.name(index) for index in range(len(sound))] == ["b/a.png"]
    with pytest.raises(DataError, match=f"of split 'train' 1 cannot be read, the first: .*{problem}"):
        boxes(on_error="skip").source("train")


@pytest.mark.parametrize("text", ["[]", '{"shapes": {}}', '{"images": []}', "{"])
def test_files_of_others(folder, boxes, text):
    write(folder / "a.json", text)
    with pytest.raises(DataError, match="a.json: "):
        boxes().source("train")


def test_masks_of_classes(folder, masks):
    """Later shapes lie on top; background is the first class."""
    labelme(folder / "a.json", shape("dog", [[0, 0], [60, 30]], "rectangle"), shape("cat"))
    source = masks().source("train")
    assert source.classes == ("background", "cat", "dog")
    expected = np.zeros((40, 60), np.uint8)
    expected[:30], expected[10:20, 10:20] = 2, 1
    np.testing.assert_array_equal(source.mask(0), expected)
    np.testing.assert_array_equal(source.read(0, Window(5, 6, 20, 30))[1]["mask"], expected[5:25, 6:36])


@pytest.mark.parametrize("multilabel", [False, True])
def test_windows_of_masks_of_classes(folder, masks, multilabel):
    """Painted alone where there is no room for the whole."""
    ring = [[3, 2], [50, 8.5], [41, 39], [12.3, 30]]
    labelme(folder / "a.json", shape("dog", ring, "polygon"), shape("cat"))
    bare = masks(multilabel=multilabel).source("train")
    kept = masks(multilabel=multilabel, cache_gib=1, cache_dir=str(folder.parent / "cache")).source("train")
    whole = bare.mask(0)
    assert len(np.unique(whole)) == 3
    for y, x, height, width in [(0, 0, 40, 60), (5, 6, 20, 30), (39, 59, 1, 1), (10, 0, 1, 60)]:
        for source in (bare, kept):
            part = source.mask(0, Window(y, x, height, width))
            np.testing.assert_array_equal(part, whole[y : y + height, x : x + width])


def test_merged_and_ignored_classes(folder, masks):
    labelme(folder / "a.json", shape("dog", [[0, 0], [60, 30]], "rectangle"), shape("cat"))
    merged = masks(classes={"pet": ["cat", "dog"]}, background="ground").source("train")
    assert merged.classes == ("ground", "pet")
    assert np.bincount(merged.mask(0).ravel()).tolist() == [600, 1800]
    ignored = masks(ignore_classes=["dog"]).source("train")
    assert ignored.classes == ("background", "cat")
    assert [(ignored.mask(0) == value).sum() for value in (0, 1, IGNORE)] == [600, 100, 1700]
    np.testing.assert_array_equal(
        masks(classes=["cat"], unlisted="ignore").source("train").mask(0), ignored.mask(0)
    )
    dropped = masks(classes=["cat"], unlisted="drop", background=None).source("train")
    assert dropped.classes == ("cat",)
    assert [(dropped.mask(0) == value).sum() for value in (0, IGNORE)] == [100, 2300]
    with pytest.raises(DataError, match="a.json: class dog is none of cat"):
        masks(classes=["cat"]).source("train")
    with pytest.raises(SettingError, match="data.background: got 'cat'"):
        masks(background="cat").source("train")


def test_several_classes_a_pixel(folder, masks):
    labelme(folder / "a.json", shape("dog", [[0, 0], [60, 30]], "rectangle"), shape("cat"))
    source = masks(multilabel=True).source("train")
    assert (source.classes, source.multilabel) == (("cat", "dog"), True)
    assert [(source.mask(0) == value).sum() for value in (0, 2, 3)] == [600, 1700, 100]
    with pytest.raises(SettingError, match="1 to 7 classes with multilabel"):
        masks(multilabel=True, classes=list("abcdefgh"), unlisted="drop").source("train")


def test_images_without_file(folder, masks, caplog):
    with pytest.raises(DataError, match=r"1 image\(s\) without annotation: a.png"):
        masks().source("train")
    with caplog.at_level(logging.WARNING):
        assert not masks(missing_labels="negative").source("train").mask(0).any()
    assert "taken for images without objects: a.png" in caplog.text


def test_the_cache_knows_what_a_mask_is_made_of(folder, masks):
    def mask(**changes):
        return np.array(
            masks(cache_gib=1, cache_dir=str(folder.parent / "cache"), **changes).source("train").mask(0)
        )

    labelme(folder / "a.json", shape("dog"))
    first = mask()
    np.testing.assert_array_equal(mask(), first)
    assert len(list((folder.parent / "cache/decoded").glob("*.npy"))) == 1
    assert mask(multilabel=True).max() == 1
    labelme(folder / "a.json", shape("dog", [[0, 0], [60, 30]], "rectangle"))
    assert mask().sum() == 1800
    assert mask(background=None).min() == 0
