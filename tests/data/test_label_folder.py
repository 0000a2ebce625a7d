"""Text files of boxes are read as their format says; what is broken is named with its line."""

import logging
from functools import partial

import numpy as np
import pytest
from box_files import images, write, yolo_folder
from image_files import noise, save
from PIL import Image

from hires.data.label_folder import XyxyFolder
from hires.interfaces import ConfigError, DataError, Window
from hires.settings import SettingError


@pytest.fixture
def yolo(folder):
    return partial(yolo_folder, folder)


@pytest.fixture
def xyxy(folder):
    def make(**changes):
        usual = {"images": "*.png", "labels": "*.txt", "classes": ("cat", "dog"), "splits": {}, "cache_gib": 0}
        return XyxyFolder(root=str(folder), **(usual | changes))

    return make


def test_shares_become_pixels(folder, yolo):
    images(folder, "a.png", "b.PNG")
    write(folder / "a.txt", "1 0.5 0.5 0.2 0.5\n0 0.25 0.75 0.5 0.1\n")
    write(folder / "b.txt", "")
    source = yolo().source("train")
    target = source.objects(0)
    np.testing.assert_allclose(target["boxes"], [[24, 10, 36, 30], [0, 28, 30, 32]], rtol=1e-6)
    assert target["labels"].tolist() == [1, 0]
    np.testing.assert_allclose(target["areas"], [240, 120], rtol=1e-5)
    assert target["size"].tolist() == [40, 60]
    assert (source.classes, source.category_ids, source.instance_masks) == (("cat", "dog"), (0, 1), False)
    assert [source.image_id(index) for index in range(2)] == [1, 2]
    empty = source.read(1, Window(0, 0, 20, 20))[1]
    assert {key: (value.shape, value.dtype.name) for key, value in empty.items()} == {
        "boxes": ((0, 4), "float32"),
        "labels": ((0,), "int64"),
        "ignored": ((0,), "bool"),
        "areas": ((0,), "float32"),
        "ids": ((0,), "int64"),
        "size": ((2,), "int64"),
    }


def test_shares_are_of_the_upright_image(folder, yolo):
    exif = Image.Exif()
    exif[274] = 6
    pixels = np.zeros((20, 80, 3), np.uint8)
    pixels[:, 60:] = 255  # the last quarter of the width: after the turn that of the height
    save(folder / "a.png", pixels, exif=exif)
    write(folder / "a.txt", "0 0.5 0.875 1 0.25")
    source = yolo().source("train")
    image, target = source.read(0)
    assert image.shape == (80, 20, 3)
    x1, y1, x2, y2 = target["boxes"][0].astype(int)
    assert image[y1:y2, x1:x2].min() == 255
    assert image.sum() == image[y1:y2, x1:x2].sum()


def test_images_without_label_are_left_out_on_request(folder, yolo, caplog):
    images(folder, "a.png", "b.png", "drafts/c.png")
    write(folder / "a.txt", "0 0.5 0.5 0.2 0.5\n")
    with pytest.raises(DataError, match=r"1 image\(s\) without label: b.png;.*missing_labels=skip"):
        yolo().source("train")
    source = yolo(images="**/*.*", labels="**/*.txt", exclude=["drafts/*"], missing_labels="skip").source("train")
    assert [source.name(index) for index in range(len(source))] == ["a.png"]
    assert "1 image(s) without label are left out: b.png" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff1 .5 .5 .2 .5\r\n\r\n0 .25 .75 .5 .1\r\n",
        "1,.5,.5,.2,.5\n  0,\t.25, .75, .5, .1  ",
        "1.0 .5 .5 .2 .5\n0 .25 .75 .5 .1",
    ],
)
def test_odd_but_right_text(folder, yolo, text):
    images(folder, "a.png")
    write(folder / "a.txt", text)
    assert yolo().source("train").objects(0)["labels"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("0 0.5 0.5 0.2", r"4 value\(s\), expected 5: class cx cy w h"),
        ("0 .1 .1 .2 .1 .2 .2 .1 .2", r"9 value\(s\), expected 5"),
        ("car .5 .5 .2 .2", "not all numbers"),
        ("0 nan .5 .2 .2", "not all finite"),
        ("0 inf .5 .2 .2", "not all finite"),
        ("0.5 .5 .5 .2 .2", "class 0.5 is no whole number"),
        ("-1 .5 .5 .2 .2", "class -1 is no whole number"),
        ("1e30 .5 .5 .2 .2", r"class 1e\+30 is no whole number"),
        ("0 .5 .5 .2 1e30", "no shares of the image's size"),
        ("0 312 100 20 20", "no shares of the image's size.*data=xyxy"),
    ],
)
def test_broken_lines_are_named(folder, yolo, line, problem):
    images(folder, "a.png")
    write(folder / "a.txt", f"0 .5 .5 .2 .2\n\n{line}\n")
    with pytest.raises(DataError, match=f"a.txt:3: .*{problem}"):
        yolo().source("train")


def test_pixels_of_no_image(folder, xyxy):
    images(folder, "a.png")
    write(folder / "a.txt", "1 2 3 1e30 0\n")
    with pytest.raises(DataError, match=r"a.txt:1: \[1.0, 2.0, 3.0, 1e\+30\] are no pixels of any image"):
        xyxy().source("train")


def test_a_file_that_is_no_text(folder, yolo):
    images(folder, "a.png")
    (folder / "a.txt").write_bytes(b"\xff\xfe0\x00")
    with pytest.raises(DataError, match="a.txt: is no text"):
        yolo().source("train")


def test_images_without_label_file(folder, yolo, caplog):
    images(folder, "a.png", "b.png")
    write(folder / "a.txt", "0 .5 .5 .2 .2")
    with pytest.raises(DataError, match=r"1 image\(s\) without label: b.png.*data.missing_labels=negative"):
        yolo().source("train")
    with caplog.at_level(logging.WARNING):
        source = yolo(missing_labels="negative").source("train")
    what = "1 image(s) without annotation file are taken for images without objects: b.png"
    assert [record.getMessage() for record in caplog.records] == [f"{folder}: {what}"]
    assert [len(source.objects(index)["boxes"]) for index in range(2)] == [1, 0]
    none = yolo(missing_labels="negative", splits={"train": "b*"}).source("train")
    assert (len(none), none.objects(0)["boxes"].shape) == (1, (0, 4))


def test_other_files_in_the_folder(folder, yolo, caplog):
    images(folder, "a.png")
    write(folder / "a.txt", "0 .5 .5 .2 .2")
    write(folder / "classes.txt", "cat\ndog")
    write(folder / "train.txt", "a.png\n")
    write(folder / "README.md", "no image")
    with caplog.at_level(logging.INFO):
        assert len(yolo(splits={"train": "train.txt"}).source("train")) == 1
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "no object of these images is dog"
    ]
    write(folder / "z.txt", "0 .5 .5 .2 .2")
    assert len(yolo().source("train")) == 1
    assert "1 label(s) without image are not used: z.txt" in caplog.text


def test_absolute_corners_and_a_base(folder, xyxy):
    images(folder, "a.png")
    write(folder / "a.txt", "3 4 13 24 1\n5.5,6.5,7.5,8.5,2\n")
    source = xyxy(index_base=1).source("train")
    assert source.objects(0)["boxes"].tolist() == [[3, 4, 13, 24], [5.5, 6.5, 7.5, 8.5]]
    assert source.objects(0)["labels"].tolist() == [0, 1]
    assert source.category_ids == (1, 2)
    with pytest.raises(DataError, match=r"a.txt: class 2 is none of cat, dog; 1 object\(s\)"):
        xyxy().source("train")


def test_tables_in_the_settings(folder, yolo, caplog):
    images(folder, "a.png")
    write(folder / "a.txt", "0 .5 .5 .2 .2\n1 .5 .5 .4 .2\n2 .5 .5 .2 .4\n")

    def labels(**changes):
        target = yolo(**changes).source("train").objects(0)
        return target["labels"].tolist(), target["ignored"].tolist()

    assert labels(classes={0: "a", 1: "b", 2: "c"})[0] == [0, 1, 2]
    assert labels(classes={"large": 2, "small": [0, 1]})[0] == [1, 1, 0]
    assert labels(classes={"b": 1}, unlisted="drop") == ([0], [False])
    assert labels(classes={"b": 1}, unlisted="ignore") == ([-1, 0, -1], [True, False, True])
    what = "2 object(s) of classes that data.classes does not list are"
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [f"{folder}: {what} left out: a.png", f"{folder}: {what} ignored: a.png"]
    with pytest.raises(DataError, match="a.txt: class 0 is none of b; 1 object"):
        labels(classes={"b": 1})
    with pytest.raises(ConfigError, match="data.classes: got null.* which has none"):
        yolo(classes={"b": "cat"}).source("train")


def test_classes_are_merged_and_ignored_by_names(folder, yolo):
    images(folder, "a.png")
    write(folder / "a.txt", "0 .5 .5 .2 .2\n1 .5 .5 .4 .2\n2 .5 .5 .2 .4\n")
    write(folder / "x.names", "car\nbus\nboat\n")
    found = yolo(classes={"vehicle": ["car", 1]}, ignore_classes=["boat"]).source("train").objects(0)
    assert (found["labels"].tolist(), found["ignored"].tolist()) == ([0, 0, -1], [False, False, True])
    source = yolo(classes=None, ignore_classes=[2]).source("train")
    assert (source.classes, source.objects(0)["ignored"].tolist()) == (("car", "bus"), [False, False, True])
    numbers = yolo(classes={"a": 0, "b": 1}, ignore_classes=[2]).source("train")
    assert numbers.objects(0)["labels"].tolist() == [0, 1, -1]
    with pytest.raises(SettingError, match=r"data.classes.a: got 'bot', allowed: .*did you mean boat\?"):
        yolo(classes={"a": "bot"}).source("train")


def test_broken_images_are_named(folder, yolo):
    write(folder / "a.jpg", "no image")
    write(folder / "a.txt", "")
    with pytest.raises(DataError, match="a.jpg"):
        yolo().source("train")


def test_splits_folds_and_groups(folder, yolo):
    names = [f"{clip}_{n}" for clip in "abcdef" for n in range(3)]
    images(folder, *(f"{name}.png" for name in names), size=(8, 8))
    for name in names:
        write(folder / f"{name}.txt", "0 .5 .5 .2 .2")
    folded = [yolo(groups=r"^\w", fold=fold, folds=3).source("val") for fold in range(3)]
    clips = [{source.name(index)[0] for index in range(len(source))} for source in folded]
    assert sorted(clip for part in clips for clip in part) == list("abcdef")
    with pytest.raises(DataError, match="leak: images of group 'a'"):
        yolo(groups=r"^\w", splits={"val": "a_0.png"}).source("val")


def test_lists_are_told_of_once(folder, yolo, caplog):
    images(folder, "a.png", "b.png", size=(8, 8))
    write(folder / "a.txt", "0 .5 .5 .2 .2\n1 .5 .5 .2 .2")
    write(folder / "b.txt", "0 .5 .5 .2 .2\n1 .5 .5 .2 .2")
    write(folder / "lists/train.txt", "x/a.png\nno.png\n")
    write(folder / "lists/val.txt", "y/b.png\n")
    made = yolo(splits={"train": "lists/train.txt", "val": "lists/val.txt"}, missing_entries="skip")
    with caplog.at_level(logging.WARNING):
        assert [len(made.source(split)) for split in ("train", "val")] == [1, 1]
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        *[str(folder / "lists/train.txt")] * 2,
        str(folder / "lists/val.txt"),
    ]


def test_a_split_without_images_names_its_rule(folder, yolo):
    images(folder, "a.png")
    write(folder / "a.txt", "")
    with pytest.raises(
        DataError, match=r"split 'val' has no image .*by data.splits.val=n\*; .*data.splits.val=null"
    ):
        yolo(splits={"val": "n*"}).source("val")
    with pytest.raises(DataError, match=r"split 'train' has no image \(val 1, train 0\); change data.splits$"):
        yolo(splits={"val": "a*"}).source("train")


def test_windows(folder, xyxy):
    save(folder / "a.png", noise(40, 60))
    write(folder / "a.txt", "5 5 15 15 0\n20 10 30 20 1\n30 20 50 30 0\n")
    source = xyxy().source("train")
    image, target = source.read(0, Window(10, 15, 10, 20))
    np.testing.assert_array_equal(image, source.read(0)[0][10:20, 15:35])
    assert target["boxes"].tolist() == [[5, 0, 15, 10]]  # the others only touch the window
    assert (target["labels"].tolist(), target["ids"].tolist(), target["size"].tolist()) == ([1], [2], [10, 20])
    _, target = source.read(0, Window(9, 10, 12, 21))
    assert target["boxes"].tolist() == [[-5, -4, 5, 6], [10, 1, 20, 11], [20, 11, 40, 21]]
    assert target["areas"].tolist() == [100, 100, 200]
