"""Images find their masks by what the wildcards matched."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import touch

from hires.data.glob_keys import glob_regex, key_of
from hires.data.pairs import find_pairs, is_image_name
from hires.interfaces import DataError


@pytest.mark.parametrize(
    ("path", "pattern", "key"),
    [
        ("images/7.jpg", "images/*.jpg", "7"),
        ("a/images/7.jpg", "*/images/*.jpg", "a/7"),
        ("7.jpg", "**/*.jpg", "7"),
        ("a/b/7.jpg", "**/*.jpg", "a/b/7"),
        ("images/a/b/7.jpg", "images/**/*.jpg", "a/b/7"),
        ("images/a/b/7.jpg", "images/**", "a/b/7"),
        ("a.b.jpg", "*.jpg", "a.b"),
        ("a.b.jpg", "*", "a.b"),
        ("a.jpg", "*.*", "a"),
        ("a_image.jpg", "*_image.jpg", "a"),
        ("img_07.jpg", "img_??.jpg", "07"),
        ("a_1_b.jpg", "*_1_*.jpg", "a+b"),
        ("s1/7.jpg", "s[0-9]/*.jpg", "1/7"),
        ("only.jpg", "only.jpg", "only"),
        ("Tile 4/images/x (1).jpg", "*/images/*.jpg", "Tile 4/x (1)"),
    ],
)
def test_keys(path, pattern, key):
    assert key_of(path, pattern) == key


@given(st.lists(st.text("ab._- ", min_size=1, max_size=4), min_size=2, max_size=4))
def test_keys_of_two_trees_agree(names):
    inner = "/".join(names)
    assert key_of(f"images/{inner}.jpg", "images/**/*.jpg") == key_of(f"m/{inner}_m.png", "m/**/*_m.png")


def test_every_format_that_is_read_is_an_image_by_its_ending():
    """Those of docs/formats.md."""
    formats = (
        "png jpg mpo tif btf svs ndpi scn bif mrxs czi svslide dcm jp2 j2k webp gif bmp pbm pgm ppm pam pfm npy"
    )
    assert [ending for ending in formats.split() if not is_image_name(f"a.b/c.{ending.upper()}")] == []
    assert not any(is_image_name(name) for name in ("a.txt", "a.xml", "a.json", "npy", "a.png.txt"))


def test_globs_do_not_cross_folders():
    assert glob_regex("a/*.jpg").fullmatch("a/b/c.jpg") is None
    assert glob_regex("a/[!b]*.jpg").fullmatch("a/b.jpg") is None
    assert glob_regex("a.jpg").fullmatch("abjpg") is None


def test_same_names_in_different_folders_do_not_collide(tmp_path):
    touch(tmp_path, "a/images/1.jpg", "b/images/1.jpg", "a/mask/1.tif", "b/mask/1.tif")
    pairs = find_pairs(tmp_path, "*/images/*.jpg", "*/mask/*.tif")
    assert pairs == [("a/1", "a/images/1.jpg", "a/mask/1.tif"), ("b/1", "b/images/1.jpg", "b/mask/1.tif")]


def test_double_stars_match_nothing_too(tmp_path):
    touch(tmp_path, "i/1.jpg", "i/x/2.jpg", "i/x/y/1.jpg", "m/1.png", "m/x/2.png", "m/x/y/1.png")
    pairs = find_pairs(tmp_path, "i/**/*.jpg", "m/**/*.png")
    assert [pair.truth for pair in pairs] == ["m/1.png", "m/x/2.png", "m/x/y/1.png"]


def test_folders_hidden_files_and_links(tmp_path):
    touch(tmp_path, "i/1.jpg", "i/._1.jpg", "i/sub/x.jpg", "real/1.png")
    (tmp_path / "m").symlink_to(tmp_path / "real")
    assert [pair.image for pair in find_pairs(tmp_path, "i/*", "m/*")] == ["i/1.jpg"]


def test_an_image_without_mask_is_an_error(tmp_path):
    touch(tmp_path, *(f"i/{n}.jpg" for n in range(9)), "m/0.png")
    with pytest.raises(DataError, match=r"8 image\(s\) without mask: i/1.jpg.*\.\.\.; .*'m/\*'"):
        find_pairs(tmp_path, "i/*", "m/*")


def test_a_mask_without_image_is_a_warning(tmp_path, caplog):
    touch(tmp_path, "i/1.jpg", "m/1.png", "m/2.png", "m/3.png")
    with caplog.at_level(logging.WARNING):
        assert len(find_pairs(tmp_path, "i/*", "m/*")) == 1
    assert "2 mask(s) without image" in caplog.text
    assert len(caplog.records) == 1


def test_two_files_of_one_key_are_an_error(tmp_path):
    touch(tmp_path, "i/a.jpg", "i/a.png", "m/a.png")
    with pytest.raises(DataError, match=r"i/a.jpg and i/a.png"):
        find_pairs(tmp_path, "i/*", "m/*")


def test_a_missing_root_is_named_with_the_way_out(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such folder.*data.root=.*data_dir="):
        find_pairs(tmp_path / "nowhere", "i/*", "m/*")
    touch(tmp_path, "file")
    with pytest.raises(DataError, match="not a folder"):
        find_pairs(tmp_path / "file", "i/*", "m/*")


def test_a_glob_without_match_is_named(tmp_path):
    touch(tmp_path, "i/1.jpg")
    with pytest.raises(DataError, match=r"data.masks='m/\*.png'"):
        find_pairs(tmp_path, "i/*", "m/*.png")


def test_globs_that_disagree_are_told_with_both_keys(tmp_path):
    touch(tmp_path, *(f"Site {n}/{name}.tif" for n in (1, 2) for name in ("scan", "scan_b")))
    touch(tmp_path, *(f"Site {n}/scan_mask.png" for n in (1, 2)))
    with pytest.raises(DataError) as caught:
        find_pairs(tmp_path, "Site [12]/*.tif", "*/*_mask.png")
    assert "Site 1/scan.tif gives '1/scan', but Site 1/scan_mask.png gives 'Site 1/scan'" in str(caught.value)
    assert "[..] is one, too" in str(caught.value)
    assert "data.missing_labels=skip" in str(caught.value)


@pytest.mark.parametrize(
    ("images", "masks"),
    [("Site [12]/scan.*", "*/scan_mask.*"), ("*/scan.*", "Site ?/*_mask.png"), ("*/sc*.tif", "*/scan_mask.png")],
)
def test_one_image_and_one_mask_a_folder_belong_together(tmp_path, images, masks):
    touch(tmp_path, *(f"Site {n}/scan{ending}" for n in (1, 2) for ending in (".tif", "_mask.png")))
    assert find_pairs(tmp_path, images, masks) == [
        ("Site 1", "Site 1/scan.tif", "Site 1/scan_mask.png"),
        ("Site 2", "Site 2/scan.tif", "Site 2/scan_mask.png"),
    ]


def test_folders_count_only_where_they_leave_no_doubt(tmp_path):
    touch(tmp_path, "1/1.png", "1/labels.png", "2/2.png", "2/labels.png")
    assert [pair.key for pair in find_pairs(tmp_path, "*/[0-9].png", "*/labels.png")] == ["1", "2"]
    touch(tmp_path, "2/3.png")
    with pytest.raises(DataError, match="1/1.png gives '1/1', but 1/labels.png gives '1'"):
        find_pairs(tmp_path, "*/[0-9].png", "*/labels.png")
    touch(tmp_path, "3/labels.png")
    with pytest.raises(DataError, match="1/1.png gives '1/1'"):
        find_pairs(tmp_path, "[13]/*.png", "*/labels.png")


def test_several_masks_an_image_are_another_reader(tmp_path):
    touch(tmp_path, "a/a.png", "a/crack_1.png", "a/crack_2.png", "b/b.png", "b/crack_1.png")
    with pytest.raises(DataError, match="'a/crack.1'.*; several masks an image need data=mask_parts"):
        find_pairs(tmp_path, "*/?.png", "*/*_?.png")


def test_images_without_mask_are_left_out_on_request(tmp_path, caplog):
    touch(tmp_path, "i/1.jpg", "i/2.jpg", "i/draft/3.jpg", "m/1.png")
    found = find_pairs(tmp_path, "i/**/*.jpg", "m/*.png", "skip")
    assert [pair.image for pair in found] == ["i/1.jpg"]
    assert "2 image(s) without mask are left out: i/2.jpg, i/draft/3.jpg" in caplog.text
    with pytest.raises(DataError, match="1 image.*without mask: i/2.jpg;.*data.exclude="):
        find_pairs(tmp_path, "i/**/*.jpg", "m/*.png", exclude=["i/draft/*"])
    assert len(find_pairs(tmp_path, "i/**/*.jpg", "m/*.png", exclude=["i/draft/*", "*/2.*"])) == 1
