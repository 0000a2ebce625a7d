"""Files that are written row by row hold the same pixels as the whole, whoever reads them."""

import zlib

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from hires.data.images import read_values
from hires.engine.files import whole_file
from hires.predictions import tiff
from hires.predictions.png import PngRows
from hires.predictions.tiff import Tag, TiffTiles

SIZES = [(1, 1), (5, 300), (600, 7), (513, 259)]


def bands(array: np.ndarray, axis: int) -> list[np.ndarray]:
    """The rows in parts of 1, 2, 3, ... and all that is left in the fifth."""
    return np.split(array, [1, 3, 6, 10], axis=axis)


def pixels(shape: tuple[int, ...], dtype: str, most: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, most, shape).astype(dtype)


def write_png(path, array, palette=None):
    with whole_file(path) as file, PngRows(file, array.shape, array.dtype, palette) as rows:
        for band in bands(array, 0):
            rows.add(band)


def write_tiff(path, array, **options):
    shape = array.shape[1:]
    with whole_file(path) as file, TiffTiles(file, shape, array.dtype, planes=len(array), **options) as rows:
        for band in bands(array, 1):
            rows.add(band)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_gray_png(size, dtype, tmp_path):
    array = pixels(size, dtype, np.iinfo(dtype).max)
    write_png(tmp_path / "a.png", array)
    assert np.array_equal(cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED).reshape(size), array)
    assert np.array_equal(read_values(tmp_path / "a.png")[:, :, 0], array)


def test_palette_png(tmp_path):
    palette = np.array([[0, 0, 0], [200, 100, 50], [1, 2, 3]], np.uint8)
    array = pixels((40, 50), "uint8", 3)
    write_png(tmp_path / "a.png", array, palette)
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(np.array(image), array)
        assert np.array_equal(np.array(image.convert("RGB")), palette[array])
    assert np.array_equal(read_values(tmp_path / "a.png")[:, :, 0], array)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "planes"), [("uint8", 1), ("uint16", 1), ("uint8", 3), ("float16", 2)])
def test_tiff(size, dtype, planes, big, tmp_path, monkeypatch):
    if big:
        monkeypatch.setattr(tiff, "_CLASSIC_MOST", 0)
    array = pixels((planes, *size), dtype, 200)
    tags = [Tag(33550, 12, [0.5, 0.5, 0.0]), Tag(34737, 2, "a map|")]
    write_tiff(tmp_path / "a.tif", array, names=["<a>"] * planes, description="unit", tags=tags)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        page = file.pages[0]
        assert file.is_bigtiff == big
        assert page.is_tiled
        assert page.dtype == dtype
        assert np.array_equal(file.asarray().reshape(array.shape), array)
        assert page.tags[33550].value == (0.5, 0.5, 0.0)
        assert page.tags[34737].value == "a map|"
        assert page.tags[270].value == "unit"
        assert page.tags[42112].value.count("&lt;a&gt;") == planes


def test_palette_tiff(tmp_path):
    palette = np.array([[0, 0, 0], [200, 100, 50]], np.uint8)
    array = pixels((1, 300, 40), "uint8", 2)
    write_tiff(tmp_path / "a.tif", array, palette=palette)
    assert np.array_equal(read_values(tmp_path / "a.tif")[:, :, 0], array[0])
    with Image.open(tmp_path / "a.tif") as image:
        assert np.array_equal(np.array(image.convert("RGB")), palette[array[0]])


@pytest.mark.parametrize("write", [write_png, lambda path, array: write_tiff(path, array[None])])
def test_an_error_leaves_nothing(write, tmp_path, monkeypatch):
    def broken(*args):
        raise OSError("disk full")

    monkeypatch.setattr(zlib, "crc32", broken)
    monkeypatch.setattr(zlib, "compress", broken)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "a", pixels((300, 20), "uint8", 9))
    assert not list(tmp_path.iterdir())
