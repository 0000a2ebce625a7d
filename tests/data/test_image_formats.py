"""What files of all kinds give, against arrays that other decoders or the writers themselves know."""

import numpy as np
import pytest
from image_cases import all_cases

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
