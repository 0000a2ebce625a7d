"""Whole slides are read by windows of level 0, by TIFF alone where it says all, else by OpenSlide."""

import sys

import numpy as np
import openslide
import pytest
import tifffile
from image_arrays import samples, smooth

from hires.data.formats import slides
from hires.data.images import image_info, read_image
from hires.interfaces import DataError, Window

APERIO = "Aperio Image Library v10.0.51\r\n700x500 [0,0 700x500] (240x240) J2K/KDU Q=70|AppMag = 20|MPP = 0.5"


def write(path, array, codec, **options):
    """A slide as Aperio writes it: one page of tiles with the vendor's words."""
    more = {"description": APERIO, "metadata": None, "photometric": "rgb", "tile": (240, 240)}
    tifffile.imwrite(path, array, compression=codec, **{**more, **options})
    return path


@pytest.fixture
def slide(tmp_path):
    array = samples("uint8", 500, 700, 3)
    return write(tmp_path / "a slide.svs", array, 33005, compressionargs={"level": 0}), array


def test_windows_of_level_0(slide):
    path, array = slide
    assert image_info(path)[:6] == ((500, 700), np.uint8, 3, True, "whole slide", 0)
    np.testing.assert_array_equal(read_image(path), array)
    for y, x, height, width in [(0, 0, 1, 1), (200, 230, 100, 300), (499, 699, 1, 1)]:
        part = read_image(path, Window(y, x, height, width))
        np.testing.assert_array_equal(part, array[y : y + height, x : x + width])


def test_what_tiff_alone_says_needs_no_openslide(tmp_path, monkeypatch):
    array = smooth(3, 500, 700)
    path = write(tmp_path / "a.svs", array, "jpeg", photometric="ycbcr")
    with openslide.OpenSlide(path) as file:
        expected = np.asarray(file.read_region((100, 50), 0, (300, 200)))[..., :3]
    monkeypatch.setitem(sys.modules, "openslide", None)
    assert image_info(path).format == "TIFF"
    np.testing.assert_array_equal(read_image(path, Window(50, 100, 200, 300)), expected)


def test_a_whole_slide_is_not_read_at_once(slide, monkeypatch):
    monkeypatch.setattr(slides, "_WHOLE", 100_000)
    with pytest.raises(DataError, match=r"a slide.svs: 500 x 700 pixels .* too many at once; read windows"):
        read_image(slide[0])
    assert read_image(slide[0], Window(0, 0, 300, 300)).shape == (300, 300, 3)


def test_without_openslide_the_extra_is_named(slide, monkeypatch):
    monkeypatch.setitem(sys.modules, "openslide", None)
    for read in (read_image, image_info):
        with pytest.raises(DataError, match=r"a slide.svs: .*pip install 'hires\[slides\]'"):
            read(slide[0])


@pytest.mark.parametrize("name", ["a.mrxs", "a.vms", "a.svslide", "a.czi"])
def test_what_openslide_refuses_is_named(tmp_path, name):
    starts = {"a.svslide": b"SQLite format 3\0", "a.czi": b"ZISRAWFILE\0"}
    (tmp_path / name).write_bytes(starts.get(name, b"\xff\xd8\xff") + b"nothing more" * 20)
    with pytest.raises(DataError, match=f"{name}: cannot be (decoded|read)"):
        read_image(tmp_path / name)
