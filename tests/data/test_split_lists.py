"""Lists of images are understood in the forms that data sets write them in."""

import logging

import pytest

from hires.data.pairs import Pair
from hires.data.split_lists import Missing, keys_of_list
from hires.interfaces import DataError


def listed(root, images, text, skip_missing=False, told=None):
    (root / "list.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    pairs = [image if isinstance(image, Pair) else Pair(f"k{image}", image, "") for image in images]
    keys = keys_of_list(root, pairs, "list.txt", "val", Missing(skip_missing, told))
    return sorted(pair.image for pair in pairs if pair.key in keys)


IMAGES = ["a/1.jpg", "a/2.jpg", "b/1.jpg", "b/with blank.jpg"]


@pytest.mark.parametrize(
    ("entry", "image"),
    [
        ("a/1.jpg", "a/1.jpg"),
        ("./a/1", "a/1.jpg"),
        ("a\\1.jpg", "a/1.jpg"),
        ("2", "a/2.jpg"),
        ("2.jpg", "a/2.jpg"),
        ("2.txt", "a/2.jpg"),
        ("a/1.jpg a/1.txt", "a/1.jpg"),
        ("2 -1", "a/2.jpg"),
        ("b/with blank.jpg", "b/with blank.jpg"),
        ("kb/1.jpg", "b/1.jpg"),
    ],
)
def test_forms_of_entries(tmp_path, entry, image):
    assert listed(tmp_path, IMAGES, entry) == [image]


def test_marks_of_other_systems(tmp_path):
    assert listed(tmp_path, IMAGES, "\ufeffa/1.jpg\r\n\r\n  b/1.jpg  \r\n") == ["a/1.jpg", "b/1.jpg"]


def test_keys_name_images_that_are_called_otherwise(tmp_path):
    pairs = [Pair("g/1/10", "g/1/10_test.jpg", "g/1_not/10.txt"), Pair("g/1/11", "g/1/11_test.jpg", "")]
    assert listed(tmp_path, pairs, "g/1/10.jpg g/1_not/10.txt") == ["g/1/10_test.jpg"]


@pytest.mark.parametrize("prefix", ["aerial/", "data/set/", "/home/nobody/set/"])
def test_folders_that_do_not_exist_are_left_out_and_told_once(tmp_path, caplog, prefix):
    with caplog.at_level(logging.WARNING):
        assert listed(tmp_path, IMAGES, f"{prefix}a/1.jpg\n{prefix}a/2.jpg") == ["a/1.jpg", "a/2.jpg"]
    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == [
        f"2 entries name a folder that does not exist; they are found without it: {prefix}a/1.jpg, {prefix}a/2.jpg"
    ]


def test_paths_from_the_top_below_the_root(tmp_path):
    assert listed(tmp_path, IMAGES, f"{tmp_path}/a/1.jpg") == ["a/1.jpg"]


def test_another_image_of_an_existing_folder_is_not_taken(tmp_path):
    (tmp_path / "c").mkdir()
    with pytest.raises(DataError, match=r"1 of 1 entries match no image, or several: c/2.jpg"):
        listed(tmp_path, IMAGES, "c/2.jpg")


@pytest.mark.parametrize("entry", ["1", "1.jpg", "x/1.jpg"])
def test_a_name_that_several_have_is_refused(tmp_path, entry):
    with pytest.raises(DataError, match=r"list.txt: 1 of 1 entries match no image, or several: .*a/1.jpg"):
        listed(tmp_path, IMAGES, entry)


def test_missing_entries_may_be_skipped(tmp_path, caplog):
    with pytest.raises(DataError, match="2 of 3 .*data.missing_entries=skip"):
        listed(tmp_path, IMAGES, "a/1.jpg\nno.jpg\nnone.jpg")
    with caplog.at_level(logging.WARNING):
        assert listed(tmp_path, IMAGES, "a/1.jpg\nno.jpg\nnone.jpg", skip_missing=True) == ["a/1.jpg"]
    assert "2 of 3 entries match no image, or several, and are skipped: no.jpg, none.jpg" in caplog.text


def test_warnings_are_told_with_the_split_that_is_asked_for(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        listed(tmp_path, IMAGES, "x/a/1.jpg\nno.jpg", skip_missing=True, told="train")
        assert not caplog.records
        listed(tmp_path, IMAGES, "x/a/1.jpg\nno.jpg", skip_missing=True, told="val")
    assert len(caplog.records) == 2


def test_a_list_that_is_empty_or_no_text(tmp_path):
    with pytest.raises(DataError, match="list.txt: lists no image; write one a line, or change data.splits.val"):
        listed(tmp_path, IMAGES, "\n \n")
    assert listed(tmp_path, IMAGES, "", skip_missing=True) == []
    with pytest.raises(DataError, match="list.txt: is no text; data.splits.val"):
        listed(tmp_path, IMAGES, b"\xff\xfea")
