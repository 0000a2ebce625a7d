"""Real files of all sets against Pillow, pixel by pixel."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from hires.data.images import image_info, read_image
from hires.interfaces import Window

ROOT = Path(__file__).parents[2] / ".." / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data is not here"),
]
SUFFIXES = {".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif"}


@pytest.mark.parametrize(
    ("folder", "every"),
    [("hrf", 10), ("dubai_aerial", 10), ("aerial_cars", 12), ("bccd", 30), ("magnetic_tile", 30), ("deeppcb", 60)],
)
def test_pixels_are_those_that_pillow_sees(folder, every):
    paths = sorted(path for path in (ROOT / folder).rglob("*") if path.suffix.lower() in SUFFIXES)
    assert len(paths) > every
    for path in paths[::every]:
        image, info = read_image(path), image_info(path)
        np.testing.assert_array_equal(image, by_pillow(path), err_msg=str(path))
        assert info[:3] == (image.shape[:2], image.dtype, image.shape[2])
        height, width = info.size
        corner = read_image(path, Window(height - 50, width - 70, 50, 70))
        np.testing.assert_array_equal(corner, image[-50:, -70:])


def by_pillow(path):
    with warnings.catch_warnings(), Image.open(path) as file:
        warnings.simplefilter("ignore")
        upright = ImageOps.exif_transpose(file)
        array = np.asarray(upright.convert("RGB") if upright.mode in ("P", "RGBA") else upright)
    array = array * np.uint8(255) if array.dtype == bool else array
    return array if array.ndim == 3 else array[:, :, None]
