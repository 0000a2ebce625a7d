"""Label files that are made to take all memory or all time, or to lead out of the data set."""

import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from box_files import annotation, coco, images, voc, voc_object, write

from hires.data import rasterize
from hires.data.checks.box_facts import names_elsewhere
from hires.data.class_names import read_names
from hires.data.coco import CocoFolder
from hires.data.csv_boxes import CsvBoxes
from hires.data.csv_rows import read_csv
from hires.data.label_folder import YoloFolder
from hires.data.label_json import read_json
from hires.data.mask_folder import MaskFolder
from hires.data.rasterize import polygon_pixels
from hires.data.voc import read_voc
from hires.interfaces import ConfigError, DataError, Window
from hires.settings import SettingError

COMMON = {"splits": {}, "cache_gib": 0, "unlisted": "drop"}
OUTSIDE = ["../secret.png", "/etc/passwd", "a/../../secret.png", "..\\secret.png", "C:/../../secret.png"]


@pytest.fixture
def seconds():
    """What takes long is caught by a limit that a busy machine keeps: minutes and hours are meant."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < 10


def test_a_key_that_stands_twice_among_many(tmp_path, seconds):
    pairs = [f'"{number}": 0' for number in range(300_000)]
    with pytest.raises(DataError, match="the key '299999' stands twice"):
        read_json(write(tmp_path / "a.json", "{" + ", ".join([*pairs, pairs[-1]]) + "}"))


def test_many_class_names(tmp_path, seconds):
    names = [f"class {number}" for number in range(50_000)]
    assert len(read_names(write(tmp_path / "classes.txt", "\n".join(names)))) == 50_000
    with pytest.raises(DataError, match="'class 7' stands there twice"):
        read_names(write(tmp_path / "classes.txt", "\n".join([*names, "class 7"])))


def test_many_labels_of_a_csv(tmp_path, seconds):
    images(tmp_path, "a.png")
    rows = [f"a.png,1,2,3,4,label {number}" for number in range(30_000)]
    write(tmp_path / "a.csv", "\n".join(rows))
    with pytest.raises(SettingError, match="data.classes: got '30000 classes', allowed: 1 to 255 classes"):
        CsvBoxes(root=str(tmp_path), annotations="a.csv", **COMMON).source("train")


def test_names_of_classes_in_yaml_cannot_multiply(tmp_path, seconds):
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{n}: &a{n} {{!!merge <<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    with pytest.raises(DataError, match=r"data\.yaml: class names cannot be read \(it has aliases"):
        read_names(write(tmp_path / "data.yaml", "\n".join([*lines, "names: [a]"])))
    for text in ("names: " + "[" * 3000, "names: !!python/object/apply:os.system [ls]"):
        with pytest.raises(DataError, match=r"data\.yaml: class names cannot be read"):
            read_names(write(tmp_path / "data.yaml", text))


def test_a_download_of_a_data_set_is_text(tmp_path):
    text = f"names: [a]\ndownload: |\n  import os; os.mkdir('{tmp_path / 'broken_in'}')\n"
    assert read_names(write(tmp_path / "data.yaml", text)) == {0: "a"}
    assert not (tmp_path / "broken_in").exists()


def test_xml_that_is_nested_deeply_or_full_of_blanks(tmp_path, seconds):
    deep = write(tmp_path / "deep.xml", "<a>" * 100_000 + "</a>" * 100_000)
    assert read_voc(deep).objects == []
    blanks = f"<annotation><path>{' ' * 20_000}<x/></path></annotation>"
    assert not names_elsewhere(write(tmp_path / "blanks.xml", blanks))
    named = "<annotation><path>  /nowhere/a.png\n</path></annotation>"
    assert names_elsewhere(write(tmp_path / "named.xml", named))


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE a SYSTEM "http://localhost/a.dtd">',
        '<!DOCTYPE a [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]>',
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
    ],
)
def test_xml_reads_no_other_file(tmp_path, head):
    path = write(tmp_path / "a.xml", voc(voc_object("dog", 1, 2, 3, 4), head=head))
    with pytest.raises(DataError, match="has a DOCTYPE"):
        read_voc(path)


@pytest.mark.parametrize("name", OUTSIDE)
def test_file_names_stay_in_the_data_set(tmp_path, name):
    root = tmp_path / "set"
    images(root, "a.png")
    images(tmp_path, "secret.png")
    coco(root / "a.json", [], images=[{"id": 1, "file_name": name}])
    with pytest.raises(DataError, match="outside of the data set|are not there"):
        CocoFolder(root=str(root), annotations="a.json", **COMMON).source("train")
    path = write(root / "a.csv", f"{name},1,2,3,4,dog\n")
    with pytest.raises(DataError, match="outside of the data set|are not there"):
        CsvBoxes(root=str(root), annotations=path.name, **COMMON).source("train")


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_list_of_a_split_adds_no_file(tmp_path, name):
    """Its entries choose among the images of the data set; what matches none is left out, or an error."""
    root = tmp_path / "set"
    images(root, "a.png", "b.png")
    images(tmp_path, "secret.png")
    for image in ("a", "b"):
        write(root / f"{image}.txt", "0 .5 .5 .2 .2\n")
    settings = {"images": "*.png", "labels": "?.txt", "classes": ("dog",), "cache_gib": 0}
    write(root / "lists/train.txt", f"a.png\n{name}\n")
    splits = {"train": "lists/train.txt"}
    with pytest.raises(DataError, match="1 of 2 entries match no image"):
        YoloFolder(root=str(root), splits=splits, **settings).source("train")
    source = YoloFolder(root=str(root), splits=splits, missing_entries="skip", **settings).source("train")
    assert [source.name(index) for index in range(len(source))] == ["a.png"]
    with pytest.raises((DataError, ConfigError)):
        YoloFolder(root=str(root), splits={"train": f"{'../' * 20}etc/passwd"}, **settings).source("train")


def test_links_that_lead_in_circles(tmp_path, seconds):
    root = tmp_path / "set"
    images(root, "images/a.png", "masks/a.png")
    for number in range(12):
        (root / f"images/again{number}").symlink_to(root / "images")
    usual = {**COMMON, "unlisted": "ignore"}
    settings = MaskFolder(
        root=str(root), images="images/**/*.png", masks="masks/**/*.png", classes={"a": 0}, **usual
    )
    assert len(settings.source("train")) == 1


def test_a_polygon_of_any_number_of_points_needs_little_memory(monkeypatch):
    monkeypatch.setattr(rasterize, "_CROSSINGS", 2**16)
    count, window = 5000, Window(0, 0, 512, 64)
    zigzag = np.stack([np.linspace(0, 64, count), np.where(np.arange(count) % 2, -5.0, 600.0)], axis=1)
    tracemalloc.start()
    pixels = polygon_pixels(zigzag, window)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pixels.shape == (512, 64)
    assert peak < 20 * 2**20  # all crossings at once take more than 100 MiB


def test_many_edges_are_the_same_pixels_as_few(monkeypatch):
    ring = np.random.default_rng(0).uniform(-20, 90, (50, 2))
    whole = polygon_pixels(ring, Window(3, 5, 60, 70))
    for most in (1, 7, 200):
        monkeypatch.setattr(rasterize, "_CROSSINGS", most)
        np.testing.assert_array_equal(polygon_pixels(ring, Window(3, 5, 60, 70)), whole)


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity", "9" * 5000, "1e30"])
def test_numbers_that_no_image_has(tmp_path: Path, number):
    images(tmp_path, "a.png")
    with pytest.raises(DataError, match="a.csv:1: "):
        read_csv(write(tmp_path / "a.csv", f"a.png,{number},2,30,40,dog\n"), ".", tmp_path)
    text = json.dumps({"images": [], "categories": [{"id": 1, "name": "a"}], "annotations": [annotation(1)]})
    write(tmp_path / "a.json", text.replace('"bbox": [10', f'"bbox": [{number}'))
    with pytest.raises(DataError, match="a.json: "):
        CocoFolder(root=str(tmp_path), annotations="a.json", **COMMON).source("train")


def test_class_names_that_would_steer_a_terminal(tmp_path):
    images(tmp_path, "a.png")
    coco(
        tmp_path / "a.json",
        [],
        images=[{"id": 1, "file_name": "a.png"}],
        categories=[{"id": 1, "name": "dog\x1b[2J"}],
    )
    with pytest.raises(SettingError, match=r"data.classes: got 'dog\\x1b\[2J'"):
        CocoFolder(root=str(tmp_path), annotations="a.json", **COMMON).source("train")
