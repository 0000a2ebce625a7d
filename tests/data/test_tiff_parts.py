"""The strips, tiles and pages of TIFF files: which are decoded, how often, and what is wrong with some."""

import imagecodecs
import numpy as np
import pytest
import tifffile
from image_arrays import samples, smooth
from image_writers import by_tifffile, cv2_reads, tiff
from PIL import Image

from hires.data.formats.tiff_segments import Segments
from hires.data.images import image_size, mask_bands, read_image
from hires.interfaces import DataError, Window


def change(path, tag, value, page=0):
    with tifffile.TiffFile(path, mode="r+") as file:
        file.pages[page].tags[tag].overwrite(value)


@pytest.mark.parametrize("layout", [{"rowsperstrip": 32}, {"tile": (32, 32)}])
def test_a_jpeg_within_that_is_cut_short(tmp_path, layout):
    path = tmp_path / "a.tif"
    path.write_bytes(by_tifffile(smooth(3, 96, 64), photometric="ycbcr", compression="jpeg", **layout))
    with tifffile.TiffFile(path) as file:
        tag, counts = "TileByteCounts" if "tile" in layout else "StripByteCounts", file.pages[0].databytecounts
    whole = read_image(path)
    change(path, tag, [*counts[:-1], counts[-1] // 2])
    np.testing.assert_array_equal(read_image(path, Window(0, 0, 64, 64)), whole[:64])
    with pytest.raises(DataError, match=r"a\.tif: the JPEG is cut short"):
        read_image(path)


def test_a_jpeg_within_of_endless_scans(tmp_path):
    data = bytes(imagecodecs.jpeg8_encode(smooth(1, 32, 40)[..., 0]))
    scan = data.index(b"\xff\xda")
    path = tmp_path / "a.tif"
    compression = {259: ("H", [7])}
    path.write_bytes(tiff(data, 32, 40, compression))
    assert read_image(path).shape == (32, 40, 1)
    path.write_bytes(tiff(data[:-2] + data[scan:-2] * 201 + data[-2:], 32, 40, compression))
    with pytest.raises(DataError, match=r"a\.tif: the JPEG has more than 200 scans"):
        read_image(path)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("layout", [{"rowsperstrip": 150}, {"tile": (48, 64)}, {"rowsperstrip": 7}])
def test_bands_of_a_mask_decode_each_part_once(tmp_path, monkeypatch, layout, orientation):
    array, path = samples("uint8", 300, 128), tmp_path / "a.tif"
    extra = [(274, 3, 1, orientation, True)]
    path.write_bytes(by_tifffile(array, compression="zlib", extratags=extra, **layout))
    decoded, original = [], Segments._decoded
    monkeypatch.setattr(Segments, "_decoded", lambda self, index: decoded.append(index) or original(self, index))
    bands = list(mask_bands(path, 64))
    assert max(len(band) for band in bands) <= 64
    np.testing.assert_array_equal(np.concatenate(bands), read_image(path)[..., 0])
    parts = len(set(decoded))
    assert len(decoded) <= (3 if orientation in (3, 4) else 2) * parts  # once more by read_image


def test_of_pages_that_libtiff_decodes_the_one_is_read_whose_size_is_told(tmp_path):
    path, large = tmp_path / "a.tif", Image.fromarray(smooth(3, 64, 96)).convert("YCbCr")
    small = large.resize((24, 16))
    small.save(path, save_all=True, append_images=[large], tiffinfo={254: 1})
    change(path, "NewSubfileType", 0, page=1)
    large.save(tmp_path / "alone.tif")
    assert image_size(path) == (64, 96)
    np.testing.assert_array_equal(read_image(path), cv2_reads((tmp_path / "alone.tif").read_bytes()))
