"""Label files that are broken are passed over where that is asked for: told once, and up to half of them."""

import logging

import pytest
from box_files import images, write

from hires.data.label_folder import YoloFolder
from hires.interfaces import DataError


@pytest.fixture
def make(folder):
    """A set of images a to f for training and v, w for validation, of which some have broken labels."""

    def source(broken, split="train", on_error="skip"):
        for name in "abcdefvw":
            images(folder, f"{name}.png")
            write(folder / f"{name}.txt", "no label" if name in broken else "0 .5 .5 .2 .2")
        settings = YoloFolder(
            root=str(folder),
            images="*.png",
            labels="*.txt",
            classes=("cat",),
            splits={"val": "[vw].png"},
            cache_gib=0,
            on_error=on_error,
        )
        return settings.source(split)

    return source


def test_up_to_half_are_left_out(make):
    assert [make("abc").name(index) for index in range(3)] == ["d.png", "e.png", "f.png"]
    assert len(make("abv", "val")) == 1
    with pytest.raises(DataError, match=r"a\.txt"):
        make("a", on_error="error")


@pytest.mark.parametrize("broken", ["abcd", "abcdef"])
def test_more_than_half_are_too_many(make, broken):
    told = rf"of the labels of 6 images of split 'train' {len(broken)} cannot be read, the first: .*a\.txt"
    with pytest.raises(DataError, match=told):
        make(broken)
    assert len(make(broken, "val")) == 2


def test_each_is_told_once_with_its_split(make, caplog):
    with caplog.at_level(logging.WARNING):
        for split in ("train", "val"):
            make("abv", split)
    lines = [record.getMessage() for record in caplog.records]
    assert [(line.split(".txt")[0][-1], line.split("left out of ")[1].split(",")[0]) for line in lines] == [
        ("a", "train"),
        ("b", "train"),
        ("v", "val"),
    ]
