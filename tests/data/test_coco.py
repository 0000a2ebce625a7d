"""COCO files keep their ids, and are divided into splits."""

import logging
from functools import partial

import numpy as np
import pytest
from box_files import CROWD, annotation, coco, coco_folder, images, write

from hires.data.coco import CocoMasks
from hires.interfaces import IGNORE, ConfigError, DataError, Window
from hires.settings import SettingError


@pytest.fixture
def settings(folder):
    images(folder, "img/7.png", "img/9.png")
    return partial(coco_folder, folder)


def test_ids_come_back(folder, settings):
    given = [annotation(51, 90), annotation(17, 70, 8, bbox=[1, 2, 3.5, 4], area=7.5), annotation(4, 90, 8)]
    coco(folder / "all.json", given)
    source = settings().source("train")
    assert (source.classes, source.category_ids) == (("cat", "dog"), (3, 8))  # by id, with a gap between
    assert [(source.name(i), source.image_id(i)) for i in range(2)] == [("img/7.png", 70), ("img/9.png", 90)]
    first, second = source.objects(0), source.objects(1)
    assert first["boxes"].tolist() == [[1, 2, 4.5, 6]]
    assert (first["ids"].tolist(), first["labels"].tolist(), first["areas"].tolist()) == ([17], [1], [7.5])
    assert (second["ids"].tolist(), second["labels"].tolist()) == ([51, 4], [0, 1])
    assert "masks" not in first


def test_images_without_annotations_are_negatives(folder, settings):
    coco(folder / "all.json", [annotation(1, 90)])
    source = settings(instance_masks=True).source("train")
    assert [len(source.objects(i)["boxes"]) for i in range(2)] == [0, 1]
    assert source.read(0)[1]["masks"].shape == (0,)


def test_crowds_are_ignored_and_masks_come_with_their_objects(folder, settings):
    crowd = annotation(2, bbox=[10, 0, 5, 40], iscrowd=1, segmentation=CROWD)
    flat = annotation(3, bbox=[10, 10, 0, 5])  # is left out, and its mask with it
    coco(folder / "all.json", [flat, crowd, annotation(1)])
    source = settings(instance_masks=True).source("train")
    assert source.instance_masks
    target = source.read(0)[1]
    assert (target["ids"].tolist(), target["ignored"].tolist()) == ([2, 1], [True, False])
    assert [(mask.y, mask.x, mask.mask.shape) for mask in target["masks"]] == [
        (0, 10, (40, 5)),
        (10, 10, (10, 10)),
    ]
    part = source.read(0, Window(15, 12, 10, 20))[1]
    assert [(mask.y, mask.x, mask.mask.shape) for mask in part["masks"]] == [(0, 0, (10, 3)), (0, 0, (5, 8))]
    assert part["boxes"].tolist() == [[-2, -15, 3, 25], [-2, -5, 8, 5]]


def test_tables_and_other_categories(folder, settings):
    coco(folder / "all.json", [annotation(1), annotation(2, category=8, bbox=[0, 0, 5, 5])])
    merged = settings(classes={"pet": ["cat", 8]}).source("train")
    assert (merged.classes, merged.category_ids) == (("pet",), (3,))
    assert merged.objects(0)["labels"].tolist() == [0, 0]
    only = settings(classes=["dog"], unlisted="drop", instance_masks=True).source("train").read(0)[1]
    assert (only["ids"].tolist(), len(only["masks"])) == ([2], 1)
    with pytest.raises(DataError, match=r"all.json: class 3 \(cat\) is none of dog; 1 object"):
        settings(classes=["dog"]).source("train")
    with pytest.raises(SettingError, match=r"data.classes.cow: got 'cow', allowed: dog \(8\), cat \(3\)"):
        settings(classes=["cow"]).source("train")


def test_one_file_is_divided_by_splits(folder, settings):
    coco(folder / "all.json", [annotation(1, 90), annotation(2, 70)])
    made = settings(splits={"val": "img/9*"})
    assert [made.source(split).objects(0)["ids"].tolist() for split in ("train", "val")] == [[2], [1]]
    assert made.source("val").image_id(0) == 90
    write(folder / "val.txt", "9\n")
    assert settings(splits={"val": "val.txt"}).source("val").name(0) == "img/9.png"


def test_a_file_for_each_split(folder, settings):
    images(folder, "v/1.png")
    coco(folder / "t.json", [annotation(1)])
    more = [{"id": 1, "name": "bird"}]
    coco(folder / "v.json", [annotation(1, 5, 1)], images=[{"id": 5, "file_name": "1.png"}], categories=more)
    made = settings(annotations={"train": "t.json", "val": "v.json"}, images={"train": "img", "val": "v"})
    assert [made.has_split(split) for split in ("train", "val", "test")] == [True, True, False]
    train, val = made.source("train"), made.source("val")
    assert train.classes == val.classes == ("bird", "cat", "dog")
    assert (len(train), val.name(0), val.objects(0)["labels"].tolist()) == (2, "v/1.png", [0])
    with pytest.raises(ConfigError, match="no JSON for 'vall', only for train, val; did you mean val"):
        made.source("vall")


def test_files_of_splits_that_contradict_each_other(folder, settings):
    coco(folder / "t.json", [])
    coco(folder / "s.json", [], images=[{"id": 1, "file_name": "7.png"}])
    coco(folder / "u.json", [], images=[{"id": 1, "file_name": "9.png"}])
    coco(folder / "v.json", [])
    made = settings(annotations={"train": "t.json", "val": "v.json"})
    with pytest.raises(
        DataError, match=r"leak: 2 image\(s\) are in both 'train' and 'val'.*change data.annotations"
    ):
        made.source("train")
    with pytest.raises(DataError, match="leak: images of group 'img'.*change data.annotations"):
        settings(annotations={"train": "s.json", "val": "u.json"}, groups="^img").source("train")
    other = [{"id": 3, "name": "cow"}]
    coco(folder / "v.json", [], images=[{"id": 1, "file_name": "x.png"}], categories=other)
    with pytest.raises(DataError, match="category 3 is 'cow' in the JSON of 'val' and 'cat'"):
        made.source("train")


def test_numbers_that_are_written_as_text_or_with_a_point(folder, settings):
    coco(
        folder / "all.json",
        [annotation("5", "70", 3.0, iscrowd="0"), annotation(6, bbox=[0, 0, 5, 5], iscrowd="1")],
    )
    target = settings().source("train").objects(0)
    assert (target["ids"].tolist(), target["ignored"].tolist()) == ([5, 6], [False, True])


def test_equal_boxes_are_repeats_unless_their_masks_differ(folder, settings):
    triangle = [[10, 10, 20, 10, 20, 20]]
    given = [annotation(1), annotation(2, segmentation=triangle), annotation(3)]
    coco(folder / "all.json", given)
    target = settings(instance_masks=True).source("train").read(0)[1]
    assert target["ids"].tolist() == [1, 2]
    assert [int(mask.mask.sum()) for mask in target["masks"]] == [100, 55]
    assert settings().source("train").objects(0)["ids"].tolist() == [1]


def test_categories_that_are_ignored(folder, settings):
    coco(folder / "all.json", [annotation(1), annotation(2, category=8, bbox=[0, 0, 5, 5])])
    for given in ("dog", 8):
        source = settings(ignore_classes=[given]).source("train")
        target = source.objects(0)
        assert source.classes == ("cat",)
        assert (target["labels"].tolist(), target["ignored"].tolist()) == ([0, -1], [False, True])
    kept = settings(classes=["cat"], ignore_classes=["dog"], unlisted="drop").source("train").objects(0)
    assert kept["ids"].tolist() == [1, 2]
    with pytest.raises(SettingError, match=r"data.ignore_classes: got 'cow', allowed: dog \(8\), cat \(3\)"):
        settings(ignore_classes=["cow"]).source("train")
    with pytest.raises(SettingError, match="data.classes.cat: .*not yet in data.ignore_classes"):
        settings(classes=["cat"], ignore_classes=[3]).source("train")


def test_images_that_cannot_be_read_are_left_out_on_request(folder, settings):
    coco(folder / "all.json", [annotation(1, 90), annotation(2, 70)])
    (folder / "img/7.png").unlink()
    source = settings(on_error="skip").source("train")
    assert (len(source), source.image_id(0), source.objects(0)["ids"].tolist()) == (1, 90, [1])


def test_absolute_paths_below_the_root(folder, settings):
    coco(folder / "all.json", [], images=[{"id": 1, "file_name": str(folder / "img/7.png")}])
    assert settings().source("train").name(0) == "img/7.png"


def test_masks_of_classes(folder, settings, caplog):
    """Polygons and run lengths are painted in their order; crowds are ignored."""
    given = [
        annotation(1, category=8, bbox=[0, 0, 30, 30], segmentation=[[0, 0, 30, 0, 30, 30, 0, 30]]),
        annotation(2),
        annotation(3, bbox=[10, 0, 5, 40], iscrowd=1, segmentation=CROWD),
        annotation(4, bbox=[3, 3, 0, 0]),
    ]
    coco(folder / "all.json", given)
    usual = {"root": str(folder), "annotations": "all.json", "images": "img", "splits": {}, "cache_gib": 0}
    source = CocoMasks(**usual).source("train")
    assert source.classes == ("background", "cat", "dog")
    expected = np.zeros((40, 60), np.uint8)
    expected[:30, :30], expected[10:20, 10:20], expected[:, 10:15] = 2, 1, IGNORE
    np.testing.assert_array_equal(source.mask(0), expected)
    np.testing.assert_array_equal(source.read(0, Window(5, 6, 20, 30))[1]["mask"], expected[5:25, 6:36])
    assert not source.mask(1).any()
    assert "1 box(es) without area or upside down are left out: img/7.png" in caplog.text


def test_two_categories_of_one_name(folder, settings):
    both = [{"id": 3, "name": "cat"}, {"id": 8, "name": "cat"}]
    coco(folder / "all.json", [annotation(1), annotation(2, 70, 8, bbox=[0, 0, 5, 5])], categories=both)
    with pytest.raises(SettingError, match=r"3 and 8 both have it; cat: \[3, 8\] makes them one class"):
        settings().source("train")
    source = settings(classes={"cat": [3, 8]}).source("train")
    assert (source.classes, source.objects(0)["labels"].tolist()) == (("cat",), [0, 0])


def test_other_sizes_and_marks(folder, settings, caplog):
    listed = [{"id": 70, "file_name": ".\\7.png", "height": 60, "width": 40}]
    text = coco(folder / "all.json", [annotation(1)], images=listed).read_text()
    write(folder / "all.json", text, "utf-8-sig")
    with caplog.at_level(logging.WARNING):
        assert settings().source("train").name(0) == "img/7.png"
    assert "1 image(s) have another size than their annotations say" in caplog.text


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools.*")
def test_masks_are_those_of_pycocotools(folder, settings):
    coco_tools = pytest.importorskip("pycocotools.coco")
    path = coco(folder / "all.json", [annotation(1), annotation(2, bbox=[10, 0, 5, 40], segmentation=CROWD)])
    tools = coco_tools.COCO(str(path))
    target = settings(instance_masks=True).source("train").read(0)[1]
    for number, mask in zip(target["ids"].tolist(), target["masks"], strict=True):
        canvas = np.zeros((40, 60), np.uint8)
        canvas[mask.y : mask.y + mask.mask.shape[0], mask.x : mask.x + mask.mask.shape[1]] = mask.mask
        np.testing.assert_array_equal(canvas, tools.annToMask(tools.anns[number]))
