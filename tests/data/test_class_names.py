"""Files of class names are read as YOLO data sets write them, and found where they usually lie."""

from functools import partial

import pytest
from box_files import images, write, yolo_folder

from hires.interfaces import ConfigError, DataError


@pytest.fixture
def yolo(folder):
    return partial(yolo_folder, folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.names", "cat\r\ndog \r\n\r\n"),
        ("x.yaml", "names: [cat, dog]\ndownload: rm -rf x\n"),
        ("x.yml", "names: {1: dog, 0: cat}"),
        ("x.yml", "released: 2026-99-99\nnames: {1: dog, 0: cat}"),
    ],
)
def test_files_of_names(folder, yolo, name, text):
    images(folder, "a.png")
    write(folder / "a.txt", "1 .5 .5 .2 .2")
    write(folder / name, text)
    source = yolo(classes=name).source("train")
    assert dict(zip(source.classes, source.category_ids, strict=True)) == {"cat": 0, "dog": 1}
    assert source.classes[source.objects(0)["labels"][0]] == "dog"


@pytest.mark.parametrize(
    "text",
    [
        *("", "names: 3", "a\n\nb", "a\na", "names: {a: 0}", "names: [\n", "names: [!!python/x y]"),
        *("names: {0: a, 0: b}", "a: 1\na: 2\nnames: [b]", "names: {-1: a}", "names: {[0]: a}"),
        *("n: &n [*n, *n]\nnames: [*n]", "n: &a [x, x]\nm: &b [*a, *a]\nnames: [*b]", "names: " + "[" * 10_000),
        "names: [!!int " + "9" * 5000 + "]",
    ],
)
def test_files_of_names_that_cannot_be_read(folder, yolo, text):
    images(folder, "a.png")
    write(folder / "a.txt", "")
    ending = "yaml" if "names:" in text else "names"
    write(folder / f"x.{ending}", text)
    with pytest.raises(DataError, match=f"x.{ending}: "):
        yolo(classes=f"x.{ending}").source("train")


def test_names_are_looked_for(folder, yolo):
    images(folder, "a.png")
    write(folder / "a.txt", "1 .5 .5 .2 .2")
    with pytest.raises(ConfigError, match=r"data.classes: got null.*which has none"):
        yolo(classes=None).source("train")
    write(folder / "cars.names", "car\nbus\n")
    assert yolo(classes=None).source("train").classes == ("car", "bus")
    write(folder / "data.yaml", "names: [car]")
    with pytest.raises(ConfigError, match=r"which has cars.names, data.yaml"):
        yolo(classes=None).source("train")
