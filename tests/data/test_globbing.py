"""Globs find what glob finds, and never go in circles."""

import glob

import pytest
from image_files import touch

from hires.data.globbing import Found


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "set"
    touch(
        root, "0.png", "images/a/1.png", "images/a/b/2.png", "images/.hidden/3.png", "images/.4.png", "other/5.png"
    )
    (root / "broken").symlink_to("broken")
    return root


PATTERNS = [
    "*",
    "**",
    "**/*.png",
    "images/**",
    "images/**/*.png",
    "*/a/**/[0-9].png",
    "**/a/**/*.png",
    "images/*/*",
]


@pytest.mark.parametrize("pattern", [*PATTERNS, "nothing/**/*.png", "../set/**/*.png"])
def test_without_links_it_finds_what_glob_finds(root, pattern):
    found = Found(root, pattern)
    expected = {path.rstrip("/") for path in glob.glob(pattern, root_dir=root, recursive=True)} - {""}
    files = [path for path in expected if not (root / path).is_dir()]
    assert [path for path in found.paths if not (root / path).is_dir()] == sorted(files)
    assert not found.left


@pytest.mark.parametrize("target", [".", "..", "../..", "a"])
def test_links_that_lead_back_are_not_followed(root, target):
    place = root / "images" / "a" / "loop" if target == "a" else root / "images" / "loop"
    place.symlink_to("../a" if target == "a" else target)
    found = Found(root, "**/*.png")
    assert found.paths == ["0.png", "images/a/1.png", "images/a/b/2.png", "other/5.png"]
    assert found.left == [str(place.relative_to(root))]


def test_many_links_that_lead_back_take_no_time(root):
    for number in range(20):  # each on each level: glob would look at 20**40 folders
        (root / "images" / f"loop{number}").symlink_to("..")
    assert len(Found(root, "images/**/*.png").left) == 20


def test_a_glob_of_fixed_depth_meets_no_link_that_leads_back(root):
    (root / "images" / "loop").symlink_to(".")
    found = Found(root, "images/*/*/*.png")
    assert found.paths == ["images/a/b/2.png"]
    assert found.left == ["images/loop"]


def test_links_to_other_folders_are_followed(root, tmp_path):
    touch(tmp_path / "disk", "6.png", "deep/7.png")
    (root / "images" / "more").symlink_to(tmp_path / "disk")
    found = Found(root, "images/**/*.png", once=True)
    assert found.paths == ["images/a/1.png", "images/a/b/2.png", "images/more/6.png", "images/more/deep/7.png"]
    assert not found.left


def test_folders_that_link_to_each_other_are_read_once(root):
    (root / "images" / "a" / "there").symlink_to("../../other")
    (root / "other" / "back").symlink_to("../images/a")
    found = Found(root, "**/*.png", once=True)
    assert found.paths == ["0.png", "images/a/1.png", "images/a/b/2.png", "other/5.png"]
    assert found.left == ["images/a/there", "other/back"]


def test_two_splits_may_link_to_one_folder_beyond_the_glob(root):
    touch(root, "all/8.png", "train/x", "val/x")
    for split in ("train", "val"):
        (root / split / "images").symlink_to("../all")
    found = Found(root, "*/images/*.png", once=True)
    assert found.paths == ["train/images/8.png", "val/images/8.png"]
