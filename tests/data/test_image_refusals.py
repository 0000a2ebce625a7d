"""Files that must be refused: one line with the file, the fault and what to do; and what others get wrong."""

import os
import struct
import zlib

import cv2
import numpy as np
import pytest
import tifffile
from image_arrays import samples, smooth
from image_cases import all_cases
from image_files import noise, save
from image_writers import by_pillow, by_tifffile, chunk, png, tiff
from PIL import Image, ImageCms

from hires.data.formats import image_file
from hires.data.images import image_info, image_size, read_image, read_values
from hires.interfaces import DataError, Window

READERS = [read_image, read_values, image_info, image_size]


def refused(path, told, read=read_image):
    with pytest.raises(DataError, match=told) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message.removeprefix(str(path))) < 300


@pytest.mark.parametrize("read", READERS)
def test_what_is_not_there_or_no_file(tmp_path, read):
    (tmp_path / "x.png").mkdir()
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "loop.png").symlink_to(tmp_path / "pool.png")
    (tmp_path / "pool.png").symlink_to(tmp_path / "loop.png")
    (tmp_path / "through.png").symlink_to(tmp_path / "x.png")
    (tmp_path / "empty.png").touch()
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "file").touch()
    for name, told in {
        "x.png": "is a folder",
        "through.png": "is a folder",
        "dangling.png": "a link to a file that is not there",
        "loop.png": "a link that leads in a circle",
        "missing.png": "no such file",
        "file/inside.png": "cannot be reached",
        "nul\0.png": "no such file",
        "x" * 300 + ".png": "cannot be reached",
        "empty.png": r"empty \(0 bytes\)",
        "pipe.png": "a device or a pipe",
    }.items():
        refused(tmp_path / name, told, read)


def test_a_link_to_an_image_is_read(tmp_path):
    path = save(tmp_path / "a.png", noise(5, 6))
    (tmp_path / "b.jpg").symlink_to(path)
    np.testing.assert_array_equal(read_image(tmp_path / "b.jpg"), noise(5, 6))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path):
    path = save(tmp_path / "a.png", noise(5, 6))
    path.chmod(0)
    refused(path, "Permission denied")


@pytest.mark.parametrize(
    "name", ["mit Leerzeichen.png", "Größe ångström.tif", "图像.jpg", "a'b\"c.webp", "line\nbreak.png"]
)
def test_any_name_is_a_name(tmp_path, name):
    path = save(tmp_path / name, smooth(), **({"lossless": True} if "webp" in name else {}))
    if not name.endswith("jpg"):
        np.testing.assert_array_equal(read_image(path), smooth())
    assert image_size(path) == smooth().shape[:2]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (png(np.zeros((1, 1), np.uint8), size=(0, 5)), "height 0, width 5"),
        (tiff(b"", 0, 5), "height 0, width 5"),
        (b"P5 5 0 255\n", "height 0, width 5"),
        (by_pillow(smooth(), "JPEG").replace(struct.pack(">HH", 37, 53), struct.pack(">HH", 37, 0)), "width 0"),
    ],
    ids=["png", "tiff", "pnm", "jpeg"],
)
@pytest.mark.parametrize("read", [read_image, image_info])
def test_no_pixels(tmp_path, data, told, read):
    (tmp_path / "a").write_bytes(data)
    refused(tmp_path / "a", told, read)


OTHERS = {
    b"8BPS\0\1": "Photoshop",
    b"\0\0\0\x1cftypavif": "AVIF",
    b"\xff\x0a\xfa": "JPEG XL",
    b"<svg xmlns=''>": "SVG",
    b"version https://git-lfs.github.com/spec/v1\n": "Git LFS",
    b"%PDF-1.7": "PDF",
    b"hello, this is text": "not an image",
    b"\0": "not an image",
}


@pytest.mark.parametrize("start", OTHERS)
@pytest.mark.parametrize("read", READERS)
def test_formats_that_are_not_read_are_named(tmp_path, start, read):
    (tmp_path / "a.png").write_bytes(start)
    refused(tmp_path / "a.png", f"{OTHERS[start]}.*convert it", read)


CUT = [
    *(
        "png rgb 16 bit",
        "jpeg rgb 4:2:0",
        "jpeg progressive",
        "jpeg cmyk",
        "webp lossless",
        "webp lossy",
        "bmp rgb",
    ),
    *("tiff zlib", "tiff none", "tiff bigtiff", "tiff float32 5 planes in strips", "tiff 12 bit packed"),
    *("pnm P6", "pnm P2", "pfm", "gif palette", "jpeg2000 rgb", "npy uint16 7 bands"),
]


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.95])
def test_files_that_are_cut_short(tmp_path, name, keep, capfd):
    data = all_cases()[name][0]
    (tmp_path / "a").write_bytes(data[: int(len(data) * keep)])
    refused(tmp_path / "a", "copy it again|save it again|convert or remove it")
    assert capfd.readouterr() == ("", "")


def test_a_cut_jpeg_that_opencv_takes(tmp_path):
    path = save(tmp_path / "a.jpg", noise(200, 300))
    path.write_bytes(path.read_bytes()[:-2000])
    assert cv2.imread(str(path)).shape == (200, 300, 3)
    refused(path, "cut short")


def test_bands_that_opencv_drops(tmp_path):
    four, deep = samples("uint8", 40, 50, 4), samples("uint16", 40, 50, 3)
    (tmp_path / "four.tif").write_bytes(by_tifffile(four.transpose(2, 0, 1), planarconfig="separate"))
    (tmp_path / "deep.tif").write_bytes(by_tifffile(deep.transpose(2, 0, 1), planarconfig="separate"))
    for name, array in (("four.tif", four), ("deep.tif", deep)):
        theirs = cv2.imread(str(tmp_path / name), cv2.IMREAD_UNCHANGED)
        assert theirs is None or theirs.shape != array.shape
        np.testing.assert_array_equal(read_image(tmp_path / name), array)


def test_a_decompression_bomb(tmp_path, monkeypatch):
    rows = zlib.compress(bytes(10**7), 9)
    head = struct.pack(">IIBBBBB", 100_000, 100_000, 1, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    (tmp_path / "bomb.png").write_bytes(start + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    assert image_size(tmp_path / "bomb.png") == (100_000, 100_000)
    refused(tmp_path / "bomb.png", r"100000 x 100000 pixels .* more than data.max_pixels=4294967296; raise it")
    monkeypatch.setattr(image_file, "_max_pixels", 2**62)
    (tmp_path / "lie.png").write_bytes(start + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    refused(tmp_path / "lie.png", "promises 1,192 MiB of pixels, which .* bytes of file cannot hold")


def test_what_a_few_bytes_cannot_hold(tmp_path):
    lossless = bytearray(by_pillow(np.zeros((1, 1, 3), np.uint8), "WEBP", lossless=True))
    lossless[21:25] = (0x3FFF | 0x3FFF << 14).to_bytes(4, "little")
    (tmp_path / "a.webp").write_bytes(lossless)
    size = struct.pack(">HHHIIIIIIIIH", 0xFF51, 38 + 3 * 900, 0, 3000, 3000, 0, 0, 3000, 3000, 0, 0, 900)
    (tmp_path / "a.j2k").write_bytes(b"\xff\x4f" + size + b"\x07\x01\x01" * 900)
    for name in ("a.webp", "a.j2k"):
        refused(tmp_path / name, "header promises .* MiB of pixels")


def test_headers_that_make_no_sense(tmp_path):
    second = Image.fromarray(noise(9, 9, 3, 1))
    wide = bytearray(by_pillow(noise(9, 9), "WEBP", save_all=True, append_images=[second]))
    assert wide[12:16] == b"VP8X"
    wide[24:27] = b"\x00\x00\xff"
    (tmp_path / "a.webp").write_bytes(wide)
    refused(tmp_path / "a.webp", "WebP has no header that makes sense", image_info)
    (tmp_path / "a.pam").write_bytes(b"P7\nWIDTH 5\nHEIGHT 4\nDEPTH 0\nMAXVAL 255\nENDHDR\n" + bytes(20))
    refused(tmp_path / "a.pam", "header of the PNM file makes no sense", image_info)


def test_a_jpeg_of_endless_scans(tmp_path):
    data = by_pillow(smooth(), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    (tmp_path / "a.jpg").write_bytes(data[:-2] + data[last:-2] * 1000 + b"\xff\xd9")
    refused(tmp_path / "a.jpg", "more than 200 scans")


def test_the_limit_is_on_what_is_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(image_file, "_max_pixels", image_file._max_pixels)
    image_file.limit_pixels(1000)
    whole, tiled = save(tmp_path / "a.png", noise(40, 50)), tmp_path / "b.tif"
    tifffile.imwrite(tiled, noise(40, 50), tile=(16, 16), photometric="rgb")
    window = Window(20, 20, 20, 20)
    refused(whole, "max_pixels=1000")
    refused(tiled, "max_pixels=1000")
    refused(whole, "max_pixels=1000", lambda path: read_image(path, window))
    np.testing.assert_array_equal(read_image(tiled, window), noise(40, 50)[20:, 20:40])


LIES = {
    "too few strips": (tiff(bytes(100), 10, 10, {278: ("I", [2])}), "lists 1 of the 5 strips"),
    "a strip beyond the end": (tiff(bytes(100), 10, 10, {273: ("I", [10**6])}), "beyond the end"),
    "too many rows": (tiff(bytes(100), 2**20, 2**10, {278: ("I", [2**20])}), "beyond the end|promises"),
    "a huge deflated strip": (
        tiff(zlib.compress(bytes(100)), 60_000, 60_000, {259: ("H", [8])}),
        "promises 3,433 MiB of pixels",
    ),
    "a huge tile": (
        tiff(bytes(100), 10, 10, {322: ("I", [2**16]), 323: ("I", [2**16]), 324: ("I", [8]), 325: ("I", [100])}),
        "tiles far larger than its image",
    ),
    "a volume": (tiff(bytes(300), 10, 10, {32997: ("I", [3])}), "volume of 3 planes"),
    "complex samples": (tiff(bytes(800), 10, 10, {339: ("H", [6])}, bits=64), "complex64"),
    "five inks": (tiff(bytes(500), 10, 10, samples=5, photometric=5), "5 inks"),
    "camera raw": (tiff(bytes(200), 10, 10, bits=16, photometric=32803), "mosaic .* develop it"),
    "an unknown compression": (tiff(bytes(100), 10, 10, {259: ("H", [61234])}), "cannot be decoded"),
    "no page": (b"II*\0\0\0\0\0", "copy it again"),
    "a page beyond the end": (b"II*\0\0\1\0\0" + bytes(10), "copy it again"),
}


@pytest.mark.parametrize("name", LIES)
def test_tiff_files_that_lie(tmp_path, name):
    data, told = LIES[name]
    (tmp_path / "a").write_bytes(data)
    refused(tmp_path / "a", told)


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.full((4, 5), 2**24 + 1, np.uint32), "uint32 with values that float32 cannot hold"),
        (np.full((4, 5), 2**63, np.uint64), "uint64 with values that float32 cannot hold"),
        (np.full((4, 5), 2**53 + 1, np.int64), "int64 with values that float32 cannot hold"),
        (np.full((4, 5), 1e39), "float64 with values that float32 cannot hold; save it as float32"),
    ],
)
def test_values_that_no_type_of_ours_holds(tmp_path, array, told):
    np.save(tmp_path / "a.npy", array)
    refused(tmp_path / "a.npy", told)
    np.testing.assert_array_equal(read_values(tmp_path / "a.npy")[..., 0], array)


def test_arrays_that_are_no_image(tmp_path):
    np.save(tmp_path / "flat.npy", np.zeros(5, np.uint8))
    refused(tmp_path / "flat.npy", r"shape \(5,\) is no image")
    np.save(tmp_path / "object.npy", np.array([[{}]]), allow_pickle=True)
    refused(tmp_path / "object.npy", "cannot be decoded")
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    refused(tmp_path / "text.npy", "samples of type <U1 are no image")


@pytest.mark.parametrize("window", [(-1, 0, 3, 3), (0, 0, 0, 3), (38, 0, 3, 3), (0, 48, 3, 3)])
@pytest.mark.parametrize("kind", ["png", "tif"])
def test_windows_lie_within_the_image(tmp_path, window, kind):
    path = save(tmp_path / f"a.{kind}", noise(40, 50))
    refused(path, "lies outside of its 40 x 50 pixels", lambda path: read_image(path, Window(*window)))


@pytest.mark.parametrize("layout", [{"tile": (16, 16)}, {"rowsperstrip": 16}])
def test_damage_outside_of_a_window_does_not_matter(tmp_path, layout):
    array, path = samples("uint8", 64, 64), tmp_path / "a.tif"
    path.write_bytes(by_tifffile(array, compression="zlib", **layout))
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        last, length = page.dataoffsets[-1], page.databytecounts[-1]
    data = bytearray(path.read_bytes())
    data[last : last + length] = b"\xff" * length
    path.write_bytes(data)
    np.testing.assert_array_equal(read_image(path, Window(0, 0, 48, 48))[..., 0], array[:48, :48])
    refused(path, "cannot be decoded")


@pytest.mark.parametrize(("photometric", "name"), [(8, "CIELab"), (9, "ICCLab")])
def test_lab_becomes_rgb_as_littlecms_says(tmp_path, photometric, name):
    y, x = np.mgrid[:64, :64]
    seen = np.stack([60 + y * 2, 60 + x * 2, 187 - y - x // 2], axis=-1).astype(np.uint8)
    profile = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    there = ImageCms.buildTransform(profile[1], profile[0], "RGB", "LAB", ImageCms.Intent.RELATIVE_COLORIMETRIC)
    lab = ImageCms.applyTransform(Image.fromarray(seen), there)
    stored = np.frombuffer(lab.tobytes(), np.uint8).reshape(64, 64, 3) ^ np.array([0, 128, 128], np.uint8)
    if photometric == 8:
        stored = stored ^ np.array([0, 128, 128], np.uint8)
    (tmp_path / "a.tif").write_bytes(tiff(stored.tobytes(), 64, 64, samples=3, photometric=photometric))
    difference = np.abs(read_image(tmp_path / "a.tif").astype(int) - seen)
    assert difference.max() <= 4  # 8 bits of Lab hold no more
    assert difference.mean() < 1
    grays = np.zeros((1, 2, 3), np.uint8) + np.array([[0], [255]], np.uint8)[None] * np.array([1, 0, 0], np.uint8)
    grays[..., 1:] = 0 if photometric == 8 else 128
    (tmp_path / "b.tif").write_bytes(tiff(grays.tobytes(), 1, 2, samples=3, photometric=photometric))
    assert read_image(tmp_path / "b.tif").tolist() == [[[0, 0, 0], [255, 255, 255]]]
