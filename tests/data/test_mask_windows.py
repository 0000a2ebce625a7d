"""Windows of masks are the parts of the whole masks, whether they are cut out of these or read alone."""

import numpy as np
import pytest
import tifffile
from image_files import noise, save

from hires.data import mask_source
from hires.data.class_table import ClassTable
from hires.interfaces import DataError, Window

VALUES = np.random.default_rng(0).integers(0, 3, (90, 70)).astype(np.uint8)
WINDOWS = [
    Window(0, 0, 1, 1),
    Window(5, 7, 40, 30),
    Window(31, 0, 2, 70),
    Window(89, 69, 1, 1),
    Window(0, 0, 90, 70),
]


@pytest.fixture
def strips(folder, settings):
    """A set of one image with a mask in strips of 16 rows."""

    def make(values=VALUES, **changes):
        save(folder / "images" / "0.png", noise(90, 70))
        (folder / "masks").mkdir(parents=True, exist_ok=True)
        photometric = "rgb" if values.ndim == 3 else "minisblack"
        tifffile.imwrite(
            *(folder / "masks" / "0.tif", values),
            **{"rowsperstrip": 16, "compression": "zlib", "photometric": photometric},
        )
        usual = {"masks": "masks/*.tif", "classes": {"a": 0, "b": 1, "c": 2}}
        return settings(**{**usual, **changes}).source("train")

    return make


@pytest.mark.parametrize("cache_gib", [0, 1e-7, 1])
def test_windows_are_parts_of_the_whole(strips, cache_gib):
    source = strips(cache_gib=cache_gib)
    for window in WINDOWS * 2:
        y, x, height, width = window
        mask = source.mask(0, window)
        np.testing.assert_array_equal(mask, VALUES[y : y + height, x : x + width])
        np.testing.assert_array_equal(source.read(0, window)[1]["mask"], mask)
        assert mask.flags.writeable
    np.testing.assert_array_equal(source.mask(0), VALUES)


def test_windows_of_colours(strips):
    colours = np.array([(0, 0, 0), (255, 0, 9), (7, 7, 7)], np.uint8)
    source = strips(colours[VALUES], classes={"a": "#000000", "b": "#FF0009", "c": "#070707"})
    np.testing.assert_array_equal(source.mask(0, WINDOWS[1]), VALUES[5:45, 7:37])


@pytest.mark.parametrize("large", [False, True])
def test_only_what_the_window_needs_is_decoded(strips, monkeypatch, large):
    """Without room in the cache, and where the mask is large."""
    if large:
        monkeypatch.setattr(mask_source, "LARGE", 1000)
    source = strips(cache_gib=1 if large else 0)
    seen, original = [], ClassTable.read

    def read(self, path, folder="", window=None):
        seen.append(window)
        return original(self, path, folder, window)

    monkeypatch.setattr(ClassTable, "read", read)
    source.mask(0, WINDOWS[1])
    assert seen == [WINDOWS[1]]


@pytest.mark.parametrize("cache_gib", [0, 1])
def test_damage_beside_a_window_does_not_matter(strips, folder, cache_gib):
    source, path = strips(cache_gib=cache_gib), folder / "masks" / "0.tif"
    with tifffile.TiffFile(path) as file:
        start = file.pages.first.dataoffsets[4]
    data = bytearray(path.read_bytes())
    data[start : start + 4] = b"\xff" * 4
    path.write_bytes(data)
    for _ in range(2):
        np.testing.assert_array_equal(source.mask(0, WINDOWS[1]), VALUES[5:45, 7:37])
        for window in (Window(60, 0, 9, 9), None):
            with pytest.raises(DataError, match=r"0\.tif: cannot be decoded"):
                source.mask(0, window)


@pytest.mark.parametrize("cache_gib", [0, 1])
def test_a_mask_of_another_size_is_told_by_any_window(strips, cache_gib):
    with pytest.raises(DataError, match=r"0\.tif: mask is 80x70 .* 90x70; make them equal"):
        strips(VALUES[:80], cache_gib=cache_gib).mask(0, WINDOWS[0])
