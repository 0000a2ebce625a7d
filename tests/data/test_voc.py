"""VOC's XML is read without trusting it."""

import logging

import pytest
from box_files import images, voc, voc_object, write

from hires.data.voc import VocFolder
from hires.interfaces import DataError

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE annotation SYSTEM "file:///etc/passwd">'


@pytest.fixture
def settings(folder):
    images(folder, "images/a.png", "images/b.png")
    write(folder / "xml/b.xml", voc(voc_object("cat", 1, 2, 9, 8)))

    def make(**changes):
        usual = {"images": "images/*", "annotations": "xml/*.xml", "splits": {"val": "images/b*"}, "cache_gib": 0}
        return VocFolder(root=str(folder), **(usual | changes))

    return make


def test_boxes_and_names_of_all_splits(folder, settings):
    write(folder / "xml/a.xml", voc(voc_object("dog", 10, 20, 30, 40.5), voc_object(" bird\n", 0, 0, 5, 5)))
    train, val = settings().source("train"), settings().source("val")
    assert train.classes == val.classes == ("bird", "cat", "dog")
    assert train.category_ids == (1, 2, 3)
    assert train.objects(0)["boxes"].tolist() == [[10, 20, 30, 40], [0, 0, 5, 5]]
    assert train.objects(0)["labels"].tolist() == [2, 0]
    assert train.name(0) == "images/a.png"


def test_difficult_objects(folder, settings):
    things = (voc_object("cat", 1, 1, 9, 9, difficult=1), voc_object("cat", 1, 1, 8, 8, difficult=0))
    write(folder / "xml/a.xml", voc(*things))
    assert settings().source("train").objects(0)["ignored"].tolist() == [True, False]
    assert not settings(difficult="keep").source("train").objects(0)["ignored"].any()


def test_merged_and_unlisted_names(folder, settings):
    write(folder / "xml/a.xml", voc(voc_object("dog", 1, 1, 9, 9), voc_object("bird", 2, 2, 8, 8)))
    source = settings(classes={"pet": ["dog", "cat"], "bird": "bird"}).source("train")
    assert (source.classes, source.objects(0)["labels"].tolist()) == (("pet", "bird"), [0, 1])
    with pytest.raises(DataError, match=r"xml/a.xml: class bird is none of dogs, cat; 1 object"):
        settings(classes={"dogs": "dog", "cat": "cat"}).source("train")
    assert len(settings(classes=["dog"], unlisted="drop").source("train").objects(0)["ids"]) == 1


@pytest.mark.parametrize("head", [BOMB, OUTSIDE, f'<?xml version="1.0"?>{BOMB}'])
def test_document_types_are_refused(folder, settings, head):
    write(folder / "xml/a.xml", voc(voc_object("&b;" if "ENTITY" in head else "dog", 1, 1, 9, 9), head=head))
    with pytest.raises(DataError, match="xml/a.xml: has a DOCTYPE"):
        settings().source("train")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<annotation><object>", "is no XML"),
        ("", "empty"),
        (voc(voc_object("", 1, 2, 3, 4)), "object 1: has no <name>"),
        (voc(voc_object("dog", 1, 2, 3, 4), voc_object("dog", 1, "x", 3, 4)), r"object 2 \(dog\): <bndbox> needs"),
        (voc("<object><name>dog</name></object>"), r"object 1 \(dog\): <bndbox> needs xmin"),
        (voc(voc_object("dog", 1, 2, "nan", 4)), r"object 1 \(dog\): <bndbox> is not finite"),
        (voc(voc_object("dog", 1, 2, "1e30", 4)), r"object 1 \(dog\): <bndbox> is not finite, or far outside"),
    ],
)
def test_broken_files_are_named(folder, settings, text, problem):
    write(folder / "xml/a.xml", text)
    with pytest.raises(DataError, match=f"xml/a.xml: .*{problem}"):
        settings().source("train")


@pytest.mark.parametrize("side", ["", "x", "²", "-3", "0", "9" * 5000])
def test_sizes_that_were_not_known_are_not_compared(folder, settings, caplog, side):
    write(folder / "xml/a.xml", voc(voc_object("dog", 1, 2, 3, 4), size=(side, 60)))
    assert len(settings().source("train").objects(0)["boxes"]) == 1
    assert not caplog.records


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings(folder, settings, encoding):
    write(folder / "xml/a.xml", voc(voc_object("Käfer", 1, 2, 30, 40)), encoding)
    assert "Käfer" in settings().source("train").classes


def test_negatives_and_other_sizes(folder, settings, caplog):
    write(folder / "xml/a.xml", voc(size=(60, 40)))
    with caplog.at_level(logging.WARNING):
        assert len(settings().source("train").objects(0)["boxes"]) == 0
    assert "1 image(s) have another size than their annotations say" in caplog.text
    (folder / "xml/a.xml").unlink()
    with pytest.raises(DataError, match=r"1 image\(s\) without annotation: images/a.png"):
        settings().source("train")
    assert len(settings(missing_labels="negative").source("train")) == 1
