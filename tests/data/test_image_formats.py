"""What files of all kinds give, against arrays that other decoders or the writers themselves know."""

import numpy as np
import pytest
from image_arrays import H, W, samples
from image_cases import all_cases
from image_writers import by_pillow, by_tifffile, png

from hires.data.images import image_info, read_image
from hires.interfaces import Window

CASES = all_cases()


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request, tmp_path):
    data, expected = CASES[request.param]
    path = tmp_path / ("a.png" if "named .png" in request.param else "an image")
    path.write_bytes(data)
    return path, expected


def test_all_pixels_and_bands_come_as_they_should(case, capfd):
    path, expected = case
    image, info = read_image(path), image_info(path)
    assert (image.dtype, image.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(image, expected)
    assert info[:3] == (expected.shape[:2], expected.dtype, expected.shape[2])
    assert image.flags.c_contiguous
    assert image.flags.writeable
    assert capfd.readouterr() == ("", "")


def test_a_window_is_the_part_of_the_whole(case):
    path, expected = case
    height, width = expected.shape[:2]
    windows = [
        (0, 0, 1, 1),
        (0, 0, height, width),
        (height - 1, width - 1, 1, 1),
        (3, 0, 20, width),
        (9, 11, 13, 17),
    ]
    for y, x, rows, columns in windows:
        part = read_image(path, Window(y, x, rows, columns))
        np.testing.assert_array_equal(part, expected[y : y + rows, x : x + columns])
        assert part.dtype == expected.dtype
        assert part.base is None or part.base.nbytes == part.nbytes  # nothing more is kept


FOUR = samples("uint8", H, W, 4)
ALPHA = {
    "tiff rgb": by_tifffile(FOUR, photometric="rgb", extrasamples=["unassalpha"]),
    "tiff bands": by_tifffile(FOUR.astype("int16"), planarconfig="contig", extrasamples=[0, 0, 2], tile=(16, 16)),
    "tiff planes": by_tifffile(
        np.moveaxis(FOUR, 2, 0), photometric="rgb", planarconfig="separate", extrasamples=["assocalpha"]
    ),
    "png": png(FOUR, 8),
    "png 16 bit": png(FOUR.astype("uint16") * 257, 16),
    "webp": by_pillow(FOUR, "WEBP", lossless=True, exact=True),
    "jpeg2000": by_pillow(FOUR, "JPEG2000"),
}


@pytest.mark.parametrize("name", ALPHA)
def test_alpha_is_the_last_band_where_it_is_asked_for(tmp_path, name):
    path = tmp_path / "a"
    path.write_bytes(ALPHA[name])
    info, image = image_info(path), read_image(path, alpha=True)
    assert (info.bands, info.alpha, image.shape, image.dtype) == (3, 1, (H, W, 4), info.dtype)
    np.testing.assert_array_equal(image, FOUR.astype(info.dtype) * (257 if name == "png 16 bit" else 1))
    np.testing.assert_array_equal(read_image(path), image[..., :3])
    np.testing.assert_array_equal(read_image(path, Window(3, 5, 20, 30), alpha=True), image[3:23, 5:35])


def test_without_alpha_there_is_no_further_band(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(png(FOUR[..., :3].copy(), 8))
    assert image_info(path).alpha == 0
    assert read_image(path, alpha=True).shape == (H, W, 3)
