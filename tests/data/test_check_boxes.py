"""What a survey finds in boxes, whatever files they are in."""

import json

import numpy as np
import pytest
from box_files import images, voc, voc_object, write
from geo_files import feature, geojson, geotiff, polygon, square, tags
from image_files import noise, save
from surveying import seen, surveyed

from hires.data.checks.box_facts import names_elsewhere
from hires.data.checks.survey import Shown
from hires.data.geo_folder import GeoBoxes
from hires.data.label_folder import XyxyFolder, YoloFolder
from hires.data.labelme import LabelmeFolder
from hires.data.settings import WindowSettings
from hires.data.voc import VocFolder
from hires.interfaces import DataError


def yolo(root, **changes):
    usual = {"images": "*.png", "labels": "*.txt", "classes": ("cat", "dog"), "splits": {"val": "3.png"}}
    return YoloFolder(**{"root": str(root), "cache_gib": 0, "workers": 0, **usual, **changes})


@pytest.fixture
def root(tmp_path):
    """Four noisy images of 40 x 60 with a cat and a dog each."""
    for number in range(4):
        save(tmp_path / f"{number}.png", noise(40, 60, seed=number))
        write(tmp_path / f"{number}.txt", "0 0.5 0.5 0.2 0.3\n1 0.3 0.3 0.4 0.4\n")
    return tmp_path


def test_sound_labels_have_nothing(root):
    assert seen(yolo(root)) == {}


def test_boxes_that_are_wrong(root):
    lines = ["0 0.5 0.5 0 0", "0 1.5 0.5 0.2 0.2", "1 0.95 0.5 0.2 0.2", "0 0.5 0.5 0.2 0.3", "0 0.5 0.5 0.2 0.3"]
    write(root / "0.txt", "\n".join(lines))
    for number in range(1, 4):
        write(root / f"{number}.txt", "\n".join(sound(30)))
    found = seen(yolo(root))
    kinds = {code: (one.severity, one.number, one.places[0]) for code, one in found.items()}
    assert kinds == {
        "box-without-area": ("warning", 1, ("0.png", "cat 30, 20, 30, 20")),
        "box-outside": ("warning", 1, ("0.png", "cat 84, 16, 96, 24")),
        "box-over-edge": ("warning", 1, ("0.png", "dog 51, 16, 63, 24, 3 px beyond")),
        "box-twice": ("warning", 1, ("0.png", "cat 24, 14, 36, 26")),
    }


def sound(count):
    return [f"{n % 2} {0.3 + n / 100:.3f} 0.5 0.2 0.3" for n in range(count)]


def test_many_wrong_boxes_are_an_error(root):
    for number in range(4):  # x1 y1 w h, read as corners
        write(root / f"{number}.txt", "30 20 10 9 0\n33 22 9 8 1\n")
    settings = {"root": str(root), "images": "*.png", "labels": "*.txt", "classes": ("cat", "dog")}
    found = seen(XyxyFolder(**settings, splits={"val": "3.png"}, cache_gib=0, workers=0))
    assert (found["box-without-area"].severity, found["box-without-area"].number) == ("error", 8)
    assert "check the format" in found["box-without-area"].advice


def test_every_broken_label_file_is_named(root):
    write(root / "0.txt", "0 0.5 0.5 0.2")
    write(root / "1.txt", "0 a 0.5 0.2 0.3")
    write(root / "2.txt", "0 30 20 10 10")
    (root / "3.png").write_bytes(b"x")
    write(root / "3.txt", "0 0.5")
    found = seen(yolo(root))
    labels = {place.file: place.detail for place in found["unreadable-label"].places}
    assert set(labels) == {"0.txt", "1.txt", "2.txt", "3.txt"}
    assert "data=xyxy" in labels["2.txt"]
    assert [place.file for place in found["unreadable-image"].places] == ["3.png"]
    assert found["unreadable-label"].severity == "error"
    write(root / "1.txt", "")
    write(root / "2.txt", "")
    skipped = seen(yolo(root, on_error="skip", splits={}))
    assert (skipped["unreadable-label"].severity, skipped["unreadable-image"].severity) == ("warning", "warning")


def test_files_that_are_alone(root):
    (root / "0.txt").unlink()
    write(root / "9.txt", "0 0.5 0.5 0.2 0.3\n")
    write(root / "notes.txt", "not a label")
    found = seen(yolo(root))
    assert (found["image-without-label"].severity, found["image-without-label"].places[0].file) == (
        "error",
        "0.png",
    )
    assert [place.file for place in found["label-without-image"].places] == ["9.txt"]
    assert seen(yolo(root, missing_labels="negative"))["image-without-label"].severity == "info"


@pytest.mark.parametrize("missing", ["error", "negative"])
def test_globs_that_disagree_are_told_of_labels(root, missing, caplog):
    (root / "labels").mkdir()
    for number in range(4):
        (root / f"{number}.txt").rename(root / "labels" / f"boxes_{number}.txt")
    settings = yolo(root, labels="labels/*.txt", missing_labels=missing)
    hint = "0.png gives '0', but labels/boxes_0.txt gives 'boxes_0'"
    found = seen(settings)["image-without-label"]
    assert (found.severity, found.number) == ("error" if missing == "error" else "warning", 4)
    assert hint in found.advice
    assert "data.images and data.labels" in found.advice
    assert found.places[0] == ("0.png", "gives '0'")
    if missing == "error":
        with pytest.raises(DataError) as caught:
            settings.source("train")
        assert hint in str(caught.value)
    else:
        settings.source("train")
        assert hint in caplog.text


@pytest.mark.parametrize(("kind", "ending"), [(VocFolder, "xml"), (LabelmeFolder, "json"), (GeoBoxes, "geojson")])
def test_globs_that_disagree_are_told_of_annotations(root, kind, ending):
    for number in range(4):
        write(root / f"boxes_{number}.{ending}", "")
    usual = {"root": str(root), "images": "*.png", "splits": {"val": "3.png"}, "cache_gib": 0, "workers": 0}
    settings = kind(annotations=f"*.{ending}", classes=("cat",), **usual)
    hint = f"0.png gives '0', but boxes_0.{ending} gives 'boxes_0'"
    assert hint in seen(settings)["image-without-label"].advice
    with pytest.raises(DataError) as caught:
        settings.source("train")
    assert hint in str(caught.value)


def test_a_few_labels_that_lack_are_no_matter_of_globs(root):
    (root / "0.txt").rename(root / "boxes_0.txt")
    found = seen(yolo(root))
    assert "gives" not in found["image-without-label"].advice
    assert found["image-without-label"].places == (("0.png", ""),)


def test_endings_in_another_case_are_told(root, caplog):
    (root / "1.png").rename(root / "1.PNG")
    (root / "1.txt").rename(root / "1.TXT")
    found = surveyed(yolo(root)).findings
    told = [(one.severity, one.number, one.places, one.advice) for one in found if one.code == "other-case"]
    assert told == [
        ("warning", 1, (("1.PNG", ""),), "data.images=*.[pP][nN][gG] takes both"),
        ("warning", 1, (("1.TXT", ""),), "data.labels=*.[tT][xX][tT] takes both"),
    ]
    assert len(yolo(root).source("train")) == 2
    assert "1 file(s) beside those of data.images='*.png' differ" in caplog.text
    assert "such as 1.PNG; data.images='*.[pP][nN][gG]' takes both" in caplog.text
    both = yolo(root, images="*.[pP][nN][gG]", labels="*.[tT][xX][tT]")
    assert len(both.source("train")) == 3
    assert "other-case" not in seen(both)


def test_a_copy_in_capitals_is_not_missed(root):
    (root / "1.PNG").write_bytes((root / "1.png").read_bytes())
    assert "other-case" not in seen(yolo(root))


def test_classes_that_the_table_lacks_or_no_file_has(root):
    write(root / "0.txt", "7 0.5 0.5 0.2 0.3\n7 0.4 0.5 0.2 0.3\n0 0.5 0.5 0.2 0.2\n")
    found = seen(yolo(root, classes=("cat", "dog", "cow")))
    assert (found["unlisted-classes"].severity, found["unlisted-classes"].number) == ("error", 2)
    assert found["unlisted-classes"].places == (("0.png", "7: 2"),)
    assert found["class-unused"].places == (("cow", ""),)
    assert seen(yolo(root, unlisted="drop"))["unlisted-classes"].severity == "info"


@pytest.mark.parametrize("text", ["", "0 0.5 0.5 0 0\n"])
def test_training_images_without_an_object_that_counts(root, text):
    """Which ends a training whose windows are placed on objects."""
    for number in range(3):
        write(root / f"{number}.txt", text)
    found = seen(yolo(root))["no-object"]
    assert (found.severity, found.text) == ("error", "no training image holds an object that counts")
    with pytest.raises(DataError, match=found.text):
        yolo(root).source("train").targets(yolo(root).window).placement()
    assert seen(yolo(root, window=WindowSettings(focus=0)))["no-object"].severity == "warning"
    write(root / "2.txt", "0 0.5 0.5 0.2 0.3\n")
    assert "no-object" not in seen(yolo(root))


def test_no_class_at_all(root):
    for number in range(4):
        write(root / f"{number}.json", json.dumps({"shapes": [], "imageHeight": 40, "imageWidth": 60}))
    settings = {"root": str(root), "images": "*.png", "annotations": "*.json", "splits": {"val": "3.png"}}
    found = seen(LabelmeFolder(**settings, cache_gib=0, workers=0))["no-object"]
    assert (found.severity, "names a class" in found.text) == ("error", True)


def test_features_without_area_are_counted_once_a_file(tmp_path):
    for number in range(3):
        geotiff(tmp_path / f"{number}.tif", tags((20.0 * number, 0.0), 1.0))
    point = {"type": "Point", "coordinates": [5, -5]}
    geojson(tmp_path / "a.geojson", feature(polygon(square(5, -15, 10))), feature(point))
    usual = {"root": str(tmp_path), "cache_gib": 0, "workers": 0, "splits": {"val": "2.tif"}}
    found = seen(GeoBoxes(images="*.tif", annotations="a.geojson", classes=("house",), **usual))["label-remark"]
    assert found.text == "1 feature(s) of type Point have no area and are left out"
    assert found.places == (("a.geojson", ""),)


def test_lines_of_labelme_are_no_matter_of_pairing(root):
    shape = {"label": "a", "shape_type": "line", "points": [[1, 1], [9, 9]]}
    box = {"label": "a", "shape_type": "rectangle", "points": [[1, 1], [9, 9]]}
    for number in range(4):
        content = {"shapes": [shape, shape, box], "imageHeight": 40, "imageWidth": 60}
        write(root / f"{number}.json", json.dumps(content))
    settings = {"root": str(root), "images": "*.png", "annotations": "*.json", "splits": {"val": "3.png"}}
    found = seen(LabelmeFolder(**settings, cache_gib=0, workers=0))["label-remark"]
    assert (found.number, found.places[0]) == (8, ("0.json", "2"))
    assert "belong together" not in found.advice


def test_small_objects(root):
    for number in range(4):
        write(root / f"{number}.txt", "0 0.5 0.5 0.05 0.05\n0 0.3 0.3 0.5 0.5\n1 0.5 0.5 0.5 0.5\n")
    found = seen(yolo(root))
    assert found["below-stride"].places == (("cat", "50 % of its objects are narrower than 8 px"),)
    result = surveyed(yolo(root), Shown((32, 32), "resize", 8))
    cat = result.classes[0]
    assert cat.counts == {"train": 6, "val": 2}
    assert (cat.below["4"], cat.below_resized) == (0.5, 0.5)
    assert cat.sizes["50%"] == pytest.approx((np.sqrt(6) + np.sqrt(600)) / 2)
    assert "too-small" in {one.code for one in result.findings}


def test_voc_names_places_and_sizes(tmp_path):
    images(tmp_path, "JPEGImages/a.png", "JPEGImages/b.png")
    head = '<?xml version="1.0"?>'
    write(tmp_path / "Annotations/a.xml", voc(voc_object("dog", 1, 1, 20, 20), head=head))
    other = voc(voc_object("ant", 1, 1, 20, 20), voc_object("dog", 2, 2, 30, 30), size=(41, 60))
    write(tmp_path / "Annotations/b.xml", other.replace("/etc/passwd", "C:\\pictures\\b.png"))
    result = surveyed(
        VocFolder(
            root=str(tmp_path),
            images="JPEGImages/*",
            annotations="Annotations/*.xml",
            splits={"val": "JPEGImages/b.png"},
            cache_gib=0,
            workers=0,
        )
    )
    assert [(one.name, one.counts) for one in result.classes] == [
        ("ant", {"val": 1, "train": 0}),
        ("dog", {"val": 1, "train": 1}),
    ]
    found = {one.code: one for one in result.findings}
    assert found["foreign-paths"].places == (("Annotations/b.xml", ""),)  # /etc/passwd of the other is there
    assert "pictures" not in repr(result.findings)
    assert found["label-remark"].places == (("Annotations/b.xml", ""),)
    assert found["class-untaught"].places == (("ant", "only in val"),)


def test_names_in_braces_stay_as_they_are(root):
    names = ("{n}", "{0}", "{")
    assert seen(yolo(root, classes=("cat", "dog", *names)))["class-unused"].text == (
        "3 class(es) are declared, but no object has them: {n}, {0}, {"
    )
    (root / "{x").mkdir()
    write(root / "{x" / "list.txt", "no.png\n")
    found = seen(yolo(root, labels="?.txt", splits={"val": "{x/list.txt"}))
    assert "1 of 1 entries of {x/list.txt" in found["list-without-image"].text


@pytest.mark.parametrize("path", ["/a" * 3000, "/root/x.png", "\\\\host\\b.png", "/a\0b"])
def test_a_path_of_another_machine_may_be_anything(tmp_path, path):
    file = write(tmp_path / "a.json", json.dumps({"imagePath": path}))
    assert names_elsewhere(file)
    assert not names_elsewhere(write(tmp_path / "b.json", json.dumps({"imagePath": str(file)})))
