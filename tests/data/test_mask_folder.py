"""MaskFolder reads images with class indices, and refuses by name what it cannot read."""

import zlib

import numpy as np
import pytest
from image_files import noise, save
from PIL import Image

from hires.data.class_table import ClassTable
from hires.interfaces import IGNORE, ConfigError, DataError, Window
from hires.settings import SettingError


def test_reads_windows_and_whole_images(small_set, settings):
    source = settings().source("train")
    assert (len(source), source.classes, source.name(1)) == (4, ("background", "thing"), "images/1.png")
    assert source.size(1) == (90, 50)
    image, target = source.read(1)
    np.testing.assert_array_equal(image, noise(90, 50, seed=1))
    assert target["mask"].dtype == np.uint8
    assert target["mask"].sum() == 3 * 2
    part, part_target = source.read(1, Window(15, 25, 30, 20))
    np.testing.assert_array_equal(part, image[15:45, 25:45])
    np.testing.assert_array_equal(part_target["mask"], target["mask"][15:45, 25:45])


def test_the_cache_changes_nothing(small_set, settings):
    plain, cached = settings().source("train"), settings(cache_gib=1).source("train")
    for window in (None, Window(5, 6, 10, 11)):
        for _ in range(2):
            for index in range(4):
                expected, given = plain.read(index, window), cached.read(index, window)
                np.testing.assert_array_equal(given[0], expected[0])
                np.testing.assert_array_equal(given[1]["mask"], expected[1]["mask"])


def test_another_class_table_is_not_served_from_the_cache(small_set, settings):
    settings(cache_gib=1).source("train").read(0)
    turned = settings(cache_gib=1, classes={"thing": 255, "background": 0}).source("train")
    assert turned.read(0)[1]["mask"][0, 0] == 1
    with pytest.raises(DataError, match="in no class"):
        settings(cache_gib=1, classes={"background": 0}).source("train").read(0)


def test_a_list_of_names_is_of_the_values_from_0(small_set, settings):
    save(small_set / "masks" / "0.png", np.eye(80, dtype=np.uint8)[:60] * 2)
    source = settings(classes=["a", "b", "c"], images="images/0*").source("train")
    assert source.classes == ("a", "b", "c")
    assert np.bincount(source.mask(0).ravel()).tolist() == [60 * 79, 0, 60]


def test_windows_can_be_written_to(small_set, settings):
    source = settings(cache_gib=1).source("train")
    before, _ = source.read(0, Window(0, 0, 8, 8))
    image, target = source.read(0, Window(0, 0, 8, 8))
    image[:] = target["mask"][:] = 0
    np.testing.assert_array_equal(source.read(0, Window(0, 0, 8, 8))[0], before)  # the cache is untouched


@pytest.mark.parametrize("channels", [1, 3])
def test_gray_and_colour_in_one_set(folder, settings, channels):
    for name, depth in (("a", 1), ("b", 3)):
        save(folder / "images" / f"{name}.png", noise(8, 9, depth))
        save(folder / "masks" / f"{name}.png", np.zeros((8, 9), np.uint8))
    source = settings(channels=channels).source("train")
    assert [source.read(index)[0].shape for index in (0, 1)] == [(8, 9, channels)] * 2


def test_turned_images_and_masks_agree(folder, settings):
    exif = Image.Exif()
    exif[274] = 6
    mask = np.zeros((20, 30), np.uint8)
    mask[:5, :5] = 255
    save(folder / "images" / "a.png", np.repeat(mask[..., None], 3, axis=2), exif=exif)
    save(folder / "masks" / "a.png", np.rot90(mask, -1).copy())
    source = settings().source("train")
    image, target = source.read(0)
    assert source.size(0) == (30, 20)
    np.testing.assert_array_equal(image[..., 0] == 255, target["mask"] == 1)


def test_a_mask_of_another_size(small_set, settings):
    save(small_set / "masks" / "2.png", np.zeros((40, 41), np.uint8))
    with pytest.raises(DataError, match=r"masks/2.png: mask is 40x41 .*images/2.png 40x40"):
        settings().source("train").read(2, Window(0, 0, 4, 4))


def test_unlisted_values(small_set, settings):
    mask = np.zeros((40, 40), np.uint8)
    mask[0, :7], mask[1, :2] = 3, 4
    save(small_set / "masks" / "2.png", mask)
    with pytest.raises(DataError, match=r"2.png: .* 3 \(7 px\), 4 \(2 px\) .*data.unlisted=ignore"):
        settings().source("train").read(2)
    ignoring = settings(unlisted="ignore").source("train").read(2)[1]["mask"]
    assert (ignoring == IGNORE).sum() == 9
    partly = settings(ignore_values=[3, 4]).source("train").read(2)[1]["mask"]
    np.testing.assert_array_equal(partly, ignoring)


def test_a_mask_that_promises_too_many_pixels_is_not_decoded(small_set, settings):
    """A PNG of 60,000 x 60,000 pixels in its header would take 3.4 GiB."""
    path = small_set / "masks" / "2.png"
    data = path.read_bytes()
    header = data[12:16] + (60_000).to_bytes(4, "big") * 2 + data[24:29]
    path.write_bytes(data[:12] + header + zlib.crc32(header).to_bytes(4, "big") + data[33:])
    with pytest.raises(DataError, match=r"2.png: mask is 60000x60000"):
        settings().source("train").read(2)


@pytest.mark.parametrize("damage", ["image", "mask"])
@pytest.mark.parametrize("keep", [0, 300])
def test_broken_files(small_set, settings, damage, keep):
    path = small_set / f"{damage}s" / "1.png"
    path.write_bytes(path.read_bytes()[:keep] if damage == "image" else path.read_bytes()[: keep // 4])
    with pytest.raises(DataError, match=f"{damage}s/1.png"):
        settings().source("train").read(1)


def test_image_without_mask_and_missing_folder(small_set, settings, tmp_path):
    (small_set / "masks" / "3.png").unlink()
    with pytest.raises(DataError, match=r"1 image\(s\) without mask: images/3.png"):
        settings().source("train")
    with pytest.raises(DataError, match=r"elsewhere.*data.root="):
        settings(root=str(tmp_path / "elsewhere")).source("train")


def test_unknown_and_empty_splits(small_set, settings):
    made = settings(splits={"val": "images/0*", "test": "other/*"})
    with pytest.raises(ConfigError, match="'vall', allowed .*: val 1, test 0, train 3; did you mean val"):
        made.source("vall")
    with pytest.raises(DataError, match=r"'test' has no image \(val 1, test 0, train 3\)"):
        made.source("test")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"classes": {"a": 0, "b": 0}}, "classes.b"),
        ({"classes": ["a", "a"]}, "classes"),
        ({"classes": []}, "classes"),
        ({"classes": {"a": [0, 1], "b": [2, 1]}}, "classes.b"),
        ({"classes": {"a": 0, "b": 1}, "ignore_values": [1]}, "classes.b"),
        ({"classes": {}}, "classes"),
        ({"classes": {"a": []}}, "classes.a"),
        ({"classes": {"a": -1}}, "classes.a"),
        ({"classes": {"a": 70_000}}, "classes.a"),
        ({"classes": {str(n): n for n in range(256)}}, "classes"),
        ({"classes": {"a": "0"}}, "classes"),
        ({"classes": {"a": 0}, "ignore_values": [-1]}, "ignore_values"),
        ({"splits": {"val": 2}}, "splits.val"),
        ({"channels": 0}, "channels"),
        ({"cache_gib": -1}, "cache_gib"),
    ],
)
def test_settings_that_cannot_be_meant(settings, changes, field):
    with pytest.raises(SettingError) as caught:
        settings(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.int64])
def test_the_table_maps_every_type(kind, tmp_path):
    table = ClassTable({"a": (3, 5), "b": 100}, (7,), "error")
    mask = np.array([[3, 5, 100, 7]] * 300, kind)
    np.testing.assert_array_equal(table.map(mask, tmp_path), [[0, 0, 1, IGNORE]] * 300)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_negative_values_are_in_no_class(kind, tmp_path):
    mask = np.array([[0, -1, 7, np.iinfo(kind).min]], kind)
    table = ClassTable({"a": 0, "b": 7}, (), "ignore")
    assert table.map(mask, tmp_path).tolist() == [[0, IGNORE, 1, IGNORE]]
    with pytest.raises(DataError, match=r"-1 \(1 px\)"):
        ClassTable({"a": 0, "b": 7}, (), "error").map(mask, tmp_path)


@pytest.mark.parametrize("value", [-1, 65_536, 2**31 - 1])
def test_values_beyond_16_bits_are_unlisted(value, tmp_path):
    mask = np.full((2, 3), value, np.int32)
    with pytest.raises(DataError, match=rf"{value} \(6 px\)"):
        ClassTable({"a": 65_535}, (), "error").map(mask, tmp_path)
    assert (ClassTable({"a": 0}, (), "ignore").map(mask, tmp_path) == IGNORE).all()
