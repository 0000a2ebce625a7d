"""Masks are read by their colours, whatever the kind of file they are saved as."""

import tracemalloc

import numpy as np
import pytest
import tifffile
from image_files import noise, save
from image_writers import png
from PIL import Image

from hires.data.class_table import ClassTable
from hires.data.colours import colour_bands, palette_header, used_colours
from hires.data.images import image_size, read_image
from hires.interfaces import IGNORE, DataError
from hires.settings import SettingError

COLOURS = np.array([(60, 16, 152), (132, 41, 246), (155, 155, 155), (254, 221, 58)], np.uint8)
TABLE = {"building": "#3C1098", "land": ["#8429f6"], "gray": [[155, 155, 155]], "green": "#FEDD3A"}


@pytest.fixture
def labels():
    return np.random.default_rng(0).integers(0, 4, (300, 41))


def table(classes=TABLE, ignored=(), unlisted="error", **more):
    return ClassTable(classes, ignored, unlisted, **more)


def palette_png(path, indices, palette, bits=8, alpha=None):
    """A PNG of `bits` bits with the palette (colours, 3), and maybe the opacity of its entries."""
    chunks = {b"tRNS": bytes(alpha)} if alpha else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(np.asarray(indices, np.uint8), bits, np.asarray(palette), chunks=chunks))
    return path


@pytest.mark.parametrize("kind", ["png", "tif", "bmp"])
def test_colour_files(tmp_path, labels, kind):
    path = save(tmp_path / f"a.{kind}", COLOURS[labels])
    mapped = table().read(path)
    assert mapped.dtype == np.uint8
    np.testing.assert_array_equal(mapped, labels)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
def test_palettes_of_any_order_and_depth(tmp_path, labels, bits, order):
    path = palette_png(tmp_path / "a.png", np.argsort(order)[labels], COLOURS[list(order)], bits)
    np.testing.assert_array_equal(table().read(path), labels)


def test_palettes_of_one_bit(tmp_path, labels):
    path = palette_png(tmp_path / "a.png", labels % 2, COLOURS[[1, 3]], 1)
    np.testing.assert_array_equal(table().read(path), np.where(labels % 2, 3, 1))


@pytest.mark.parametrize("kind", ["png", "tif", "gif", "bmp"])
def test_palettes_as_pillow_writes_them(tmp_path, labels, kind):
    file = Image.fromarray(labels.astype(np.uint8))
    file.putpalette(COLOURS.tobytes())
    file.save(tmp_path / f"a.{kind}")
    np.testing.assert_array_equal(table().read(tmp_path / f"a.{kind}"), labels)


def test_opacity_is_dropped(tmp_path, labels):
    opacity = noise(300, 41, 1)
    path = save(tmp_path / "a.png", np.dstack([COLOURS[labels], opacity]))
    np.testing.assert_array_equal(table().read(path), labels)
    path = palette_png(tmp_path / "b.png", labels, COLOURS, 2, alpha=[0, 128, 255])
    np.testing.assert_array_equal(table().read(path), labels)


def test_gray_files_are_colours_of_three_equal_parts(tmp_path):
    mask = np.array([[155, 155, 0]], np.uint8)
    expected = [[0, 0, 1]]
    grays = table({"gray": "#9B9B9B", "black": "#000000"})
    np.testing.assert_array_equal(grays.read(save(tmp_path / "a.png", mask)), expected)
    alpha = np.dstack([mask, mask])
    np.testing.assert_array_equal(grays.read(save(tmp_path / "b.png", alpha)), expected)
    ones = save(tmp_path / "c.png", mask > 0)
    np.testing.assert_array_equal(table({"white": "#FFFFFF", "black": "#000000"}).read(ones), expected)


def test_an_index_beyond_the_palette_is_black(tmp_path):
    path = palette_png(tmp_path / "a.png", [[0, 3]], COLOURS[:2], 2)
    assert table({"building": "#3C1098", "rest": "#000000"}).read(path).tolist() == [[0, 1]]


def test_turned_files(tmp_path, labels):
    exif = Image.Exif()
    exif[274] = 6
    path = save(tmp_path / "a.png", COLOURS[labels], exif=exif)
    np.testing.assert_array_equal(table().read(path), np.rot90(labels, -1))
    file = Image.fromarray(labels.astype(np.uint8))
    file.putpalette(COLOURS.tobytes())
    file.save(tmp_path / "b.png", exif=exif)
    np.testing.assert_array_equal(table().read(tmp_path / "b.png"), np.rot90(labels, -1))


def test_one_pixel(tmp_path):
    assert table().read(save(tmp_path / "a.png", COLOURS[[[2]]])).tolist() == [[2]]


def test_colours_that_are_ignored(tmp_path, labels):
    path = save(tmp_path / "a.png", COLOURS[labels])
    classes = {name: TABLE[name] for name in ("building", "land", "green")}
    mapped = table(classes, ["#9B9B9B"]).read(path)
    np.testing.assert_array_equal(mapped, np.array([0, 1, IGNORE, 2])[labels])
    np.testing.assert_array_equal(table(classes, [(155, 155, 155)]).read(path), mapped)
    np.testing.assert_array_equal(table(classes, unlisted="ignore").read(path), mapped)


def test_unlisted_colours_are_named_and_counted(tmp_path):
    mask = COLOURS[np.zeros((300, 40), int)]
    mask[130, :7], mask[299, :2] = (0, 0, 0), (60, 16, 153)
    path = save(tmp_path / "a.png", mask)
    with pytest.raises(DataError) as caught:
        table().read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: mask colour(s) #000000 (0, 0, 0) (7 px), #3C1099 (60, 16, 153) (2 px) are in")
    assert "data.unlisted=ignore" in text
    assert "\n" not in text


def test_nothing_listed_at_all(tmp_path):
    path = save(tmp_path / "a.png", noise(200, 300))
    with pytest.raises(DataError, match=r"a.png: .* and \d+ more are in no class"):
        table().read(path)
    assert (table(unlisted="ignore").read(path) == IGNORE).all()


@pytest.mark.parametrize(("mode", "kind"), [("I;16", "uint16"), ("F", "float32")])
def test_files_without_8_bit_colours(tmp_path, mode, kind):
    file = Image.new(mode, (4, 4))
    file.save(tmp_path / "a.tif")
    with pytest.raises(DataError, match=rf"a.tif: .*this file has 1 band\(s\) of {kind}"):
        table().read(tmp_path / "a.tif")


def test_every_file_that_is_an_image_can_hold_colours(tmp_path, labels):
    """Also those that Pillow does not read, or turns otherwise than their size is told."""
    colours, palette = COLOURS[labels], np.zeros((3, 256), np.uint16)
    palette[:, :4] = COLOURS.T.astype(np.uint16) * 257
    np.save(tmp_path / "a.npy", colours)
    files = {
        "planes.tif": (np.moveaxis(colours, 2, 0), {"photometric": "rgb", "planarconfig": "separate"}),
        "webp.tif": (colours, {"compression": "webp", "compressionargs": {"lossless": True}}),
        "jpeg2000.tif": (colours, {"compression": "jpeg2000"}),
        "palette.tif": (
            labels.astype(np.uint8),
            {"photometric": "palette", "colormap": palette, "tile": (16, 16)},
        ),
        "loose.tif": (np.dstack([colours, labels.astype(np.uint8)]), {"extrasamples": [0], "photometric": "rgb"}),
    }
    for name, (array, options) in files.items():
        tifffile.imwrite(tmp_path / name, array, **options)
    for name in ("a.npy", *files):
        np.testing.assert_array_equal(table().read(tmp_path / name), labels, err_msg=name)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["png", "tif"])
def test_colours_are_turned_as_the_size_is(tmp_path, labels, kind, orientation):
    exif = Image.Exif()
    exif[274] = orientation
    options = {"exif": exif} if kind == "png" else {"tiffinfo": {274: orientation}}
    path = save(tmp_path / f"a.{kind}", COLOURS[labels], **options)
    mapped = table().read(path)
    assert mapped.shape == image_size(path)
    np.testing.assert_array_equal(COLOURS[mapped], read_image(path))


def test_of_a_tiled_mask_of_colours_a_band_is_decoded_at_a_time(tmp_path):
    path, side = tmp_path / "a.tif", 4096
    colours = np.broadcast_to(COLOURS[1], (side, side, 3))
    tifffile.imwrite(path, colours, photometric="rgb", tile=(128, 128), compression="zlib")
    tracemalloc.start()
    try:
        bands = sum(len(band) for band in colour_bands(path, 128))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bands == side
    assert peak < 2**24  # all of it are 3 * 2**24


@pytest.mark.parametrize("kind", ["png", "gif", "bmp", "tif"])
def test_used_colours_are_those_of_the_palette(tmp_path, labels, kind):
    file = Image.fromarray(labels.astype(np.uint8) * 2)
    file.putpalette(np.repeat(COLOURS, 2, axis=0).tobytes())
    file.save(tmp_path / f"a.{kind}")
    expected = {tuple(colour) for colour in COLOURS.tolist()}
    found = used_colours(tmp_path / f"a.{kind}")
    assert {(v >> 16, v >> 8 & 255, v & 255) for v in found[:, 1].tolist()} == expected
    palette = palette_header(tmp_path / f"a.{kind}")
    listed = np.frombuffer(palette, np.uint8).reshape(-1, 3)[found[:, 0]]
    assert {tuple(colour) for colour in listed.tolist()} == expected


def test_files_without_palette(tmp_path):
    np.save(tmp_path / "a.npy", noise(4, 5))
    assert palette_header(tmp_path / "a.npy") is None
    assert palette_header(save(tmp_path / "a.png", noise(4, 5))) is None


def test_colours_of_16_bits_are_not_cut(tmp_path):
    import cv2

    cv2.imwrite(str(tmp_path / "a.png"), noise(8, 8).astype(np.uint16) * 200)
    with pytest.raises(DataError, match=r"a.png: .*mode RGB of 16 bits"):
        table().read(tmp_path / "a.png")


def test_truncated_files(tmp_path):
    path = save(tmp_path / "a.png", noise(100, 100))
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError, match=r"a.png: .*copy it again"):
        table(unlisted="ignore").read(path)


def test_values_for_a_colour_file_point_to_colours(tmp_path):
    path = save(tmp_path / "a.png", noise(8, 8))
    with pytest.raises(DataError, match=r"a.png.*mode RGB; give colours in data.classes, such as \"#3C1098\""):
        ClassTable({"a": 0}, (), "ignore").read(path)


def test_a_large_mask_takes_little_more_than_its_classes(tmp_path):
    height, width = 4000, 6000
    path = save(tmp_path / "a.png", np.broadcast_to(COLOURS[1], (height, width, 3)), compress_level=1)
    tracemalloc.start()
    try:
        mapped = table().read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (mapped == 1).all()
    # lookup, a band, and the classes twice, or once beside the colours, which are 3 bytes
    assert peak < 4 * height * width + 2**24 + 2**23


def test_bands_are_the_whole(tmp_path, labels):
    path = save(tmp_path / "a.png", COLOURS[labels])
    bands = list(colour_bands(path, 128))
    assert [len(band) for band in bands] == [128, 128, 44]
    code = int.from_bytes(COLOURS[labels[0, 0]].tobytes(), "big")
    assert bands[0][0, 0] == code


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"classes": {"a": "#000000", "b": 1}}, "classes.b"),
        ({"classes": {"a": 1, "b": [[0, 0, 0]]}}, "classes.b"),
        ({"classes": {"a": ["#000000", 7]}}, "classes.a"),
        ({"classes": {"a": "#000000", "b": [[0, 0, 0]]}}, "classes.b"),
        ({"classes": {"a": ["#0000ff", "#0000FF"]}}, "classes.a"),
        ({"classes": {"a": [[0, 0, 256]]}}, "classes.a"),
        ({"classes": {"a": [[0, 0]]}}, "classes"),
        ({"classes": {"a": "#00000"}}, "classes"),
        ({"classes": {"a": "red"}}, "classes"),
        ({"classes": {"a": "#000000"}, "ignore_values": [255]}, "ignore_values"),
        ({"classes": {"a": 0}, "ignore_values": ["#FFFFFF"]}, "ignore_values"),
        ({"classes": {"a": "#000000"}, "ignore_values": ["#000000"]}, "classes.a"),
        ({"classes": {"a": "#000000"}, "threshold": 127}, "threshold"),
    ],
)
def test_tables_that_cannot_be_meant(settings, changes, field):
    with pytest.raises(SettingError) as caught:
        settings(**changes)
    assert caught.value.field == field


def test_a_whole_set_in_two_kinds_of_files(folder, settings, labels):
    for name in "ab":
        save(folder / "images" / f"{name}.png", noise(*labels.shape))
    save(folder / "masks" / "a.png", COLOURS[labels])
    palette_png(folder / "masks" / "b.png", 3 - labels, COLOURS[::-1], 2)
    source = settings(classes=TABLE, cache_gib=1).source("train")
    for _ in range(2):  # decoded, and from the cache
        for index in (0, 1):
            np.testing.assert_array_equal(source.read(index)[1]["mask"], labels)
