"""Images that are made to take all memory or all time, or to have something else read or called."""

import io
import struct
import time
import tracemalloc
import zlib

import numpy as np
import pytest
import tifffile
from image_files import noise
from image_writers import by_pillow, chunk, png, tiff
from PIL import Image

from hires.data.colours import palette_header
from hires.data.formats import image_file
from hires.data.geo_tiff import read_georeference
from hires.data.images import image_info, mask_bands, read_image, read_values
from hires.interfaces import DataError

MOST = 64 * 2**20  # bytes that a refusal may take


@pytest.fixture(autouse=True)
def bounded():
    """Neither memory nor time: Python's share of the one, and seconds of the other that a busy machine keeps."""
    tracemalloc.start()
    begin = time.process_time()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - begin < 10
    assert peak < MOST


def refused(path, told, read=read_image):
    with pytest.raises(DataError, match=told) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def said(read, path) -> str:
    """What an error of ours says; that it is read where there is none. Any other error fails the test."""
    try:
        read(path)
    except DataError as error:
        return str(error)
    return f"{path}: is read"


def with_next(data: bytes, offset: int | None = None, tags: int = 9) -> bytes:
    """A TIFF whose directory says that another one follows there, or that it follows itself."""
    (start,) = struct.unpack_from("<I", data, 4)
    at = start + 2 + 12 * tags
    return data[:at] + struct.pack("<I", start if offset is None else offset) + data[at + 4 :]


def test_directories_that_follow_each_other_in_a_circle(tmp_path):
    path = tmp_path / "loop.tif"
    path.write_bytes(with_next(tiff(bytes(100), 10, 10)))
    assert read_image(path).shape == (10, 10, 1)
    path.write_bytes(with_next(tiff(bytes(100), 10, 10, {254: ("I", [1])}), tags=10))  # thumbnails for ever
    refused(path, "has no full page", image_info)


def test_thousands_of_pages(tmp_path):
    path = tmp_path / "pages.tif"
    with tifffile.TiffWriter(path) as file:
        for _ in range(300):
            file.write(np.zeros((8, 8), np.uint8), subfiletype=1, photometric="minisblack")
    refused(path, "has no full page")


@pytest.mark.parametrize("code", [270, 33550, 34735])
def test_tags_that_claim_more_than_the_file_holds(tmp_path, code):
    """A description, or where a GeoTIFF lies, of 2**31 values."""
    data = bytearray(tiff(bytes(100), 10, 10, {code: ("I", [7])}))
    at = data.index(struct.pack("<HHI", code, 4, 1))
    data[at + 4 : at + 8] = struct.pack("<I", 2**31)
    (tmp_path / "a.tif").write_bytes(data)
    refused(tmp_path / "a.tif", r"a\.tif: ", read_georeference)
    assert said(read_image, tmp_path / "a.tif").startswith(f"{tmp_path / 'a.tif'}: ")


TEXT = zlib.compress(bytes(96 * 2**20), 9)
"""96 MiB of zeros, in 96 KiB."""


@pytest.mark.parametrize(
    ("name", "body"),
    [(b"zTXt", b"a\0\0" + TEXT), (b"iCCP", b"a\0\0" + TEXT), (b"iTXt", b"a\0\1\0\0\0" + TEXT)],
)
@pytest.mark.parametrize("is_palette", [True, False])
def test_chunks_of_a_png_that_unpack_to_anything(tmp_path, name, body, is_palette):
    array = np.zeros((6, 6), np.uint8)
    palette = np.zeros((2, 3), np.uint8) if is_palette else None
    (tmp_path / "a.png").write_bytes(png(array, palette=palette, chunks={name: body}, late={name: body}))
    for read in (read_image, read_values, palette_header, lambda path: list(mask_bands(path, 4))):
        assert said(read, tmp_path / "a.png").startswith(f"{tmp_path / 'a.png'}: ")


def test_a_million_chunks(tmp_path):
    content = png(np.zeros((6, 6), np.uint8))
    many = chunk(b"tEXt", b"a\0b") * 200_000
    (tmp_path / "a.png").write_bytes(content[:33] + many + content[33:])
    assert image_info(tmp_path / "a.png").size == (6, 6)


def test_a_chunk_that_ends_far_beyond_the_file(tmp_path):
    content = png(np.zeros((6, 6), np.uint8))
    (tmp_path / "a.png").write_bytes(content[:33] + struct.pack(">I", 2**32 - 1) + b"tEXt" + content[33:])
    refused(tmp_path / "a.png", "cut short")


def test_a_gif_and_a_bitmap_of_a_few_bytes_and_gigapixels(tmp_path):
    gif = bytearray(by_pillow(np.zeros((4, 4), np.uint8), "GIF"))
    at = gif.index(b"\x2c\0\0\0\0\4\0\4\0")
    gif[6:10] = gif[at + 5 : at + 9] = struct.pack("<HH", 65_535, 65_535)
    (tmp_path / "a.gif").write_bytes(gif)
    refused(tmp_path / "a.gif", "promises 4,096 MiB of pixels")
    bitmap = bytearray(by_pillow(np.zeros((4, 4), np.uint8), "BMP"))
    bitmap[18:26] = struct.pack("<ii", 60_000, 60_000)
    (tmp_path / "a.bmp").write_bytes(bitmap)
    refused(tmp_path / "a.bmp", "promises 3,433 MiB of pixels")


def test_an_animation_of_any_length_is_its_first_frame(tmp_path):
    frames = [Image.fromarray(noise(8, 8, 3, seed)) for seed in range(60)]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    (tmp_path / "a.gif").write_bytes(out.getvalue())
    assert read_image(tmp_path / "a.gif").shape == (8, 8, 3)


def test_svg_is_not_read_whatever_it_refers_to(tmp_path):
    text = '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]><svg>&x;</svg>'
    for name in ("a.svg", "a.png"):
        (tmp_path / name).write_text(text)
        refused(tmp_path / name, "convert it")


def test_arrays_that_would_call_something(tmp_path):
    class Evil:
        def __reduce__(self):
            return (tmp_path / "broken_in").mkdir, ()

    np.save(tmp_path / "a.npy", np.array([[Evil()]], dtype=object), allow_pickle=True)
    refused(tmp_path / "a.npy", "cannot be decoded")
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (__import__('os').mkdir('x'), 3)}"
    head = header.ljust(117).encode() + b"\n"
    (tmp_path / "b.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes(9))
    refused(tmp_path / "b.npy", "cannot be decoded")
    assert not (tmp_path / "broken_in").exists()


def test_an_array_that_is_larger_than_its_file(tmp_path):
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (4000000, 4000000)}".ljust(117).encode() + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(9))
    refused(tmp_path / "a.npy", "copy it again|max_pixels", read_image)


def test_the_limit_on_pixels_is_that_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(image_file, "_max_pixels", image_file._max_pixels)
    image_file.limit_pixels(99)
    for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "JPEG2000"):
        (tmp_path / kind).write_bytes(by_pillow(noise(10, 10), kind))
        refused(tmp_path / kind, "data.max_pixels=99")
