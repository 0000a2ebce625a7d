"""What a survey keeps in memory: bands of images, what is read at once, thumbnails that are compared."""

import tracemalloc

import numpy as np
import pytest
import tifffile
from image_files import noise, save

from hires.data.checks.bands import block_bytes, image_bands, reading_bytes
from hires.data.checks.examine import Examiner
from hires.data.checks.leak_findings import near
from hires.data.checks.mask_facts import MaskReader
from hires.data.images import ImageInfo, image_info
from hires.data.mask_folder import MaskFolder
from hires.data.pairs import Pair

MIB = 2**20


@pytest.mark.parametrize(
    ("width", "bands", "kind", "rows"),
    [
        (100_000, 13, np.uint16, 256),
        (20_000, 3, np.uint8, 256),
        (20_000, 3, np.uint8, 3000),
        (20_000, 3, np.uint8, 50_000),
        (9, 1, np.uint8, 1),
    ],
)
def test_blocks_of_images_are_bounded_and_counted(width, bands, kind, rows):
    """However wide they are, and however many rows are decoded together."""
    info = ImageInfo((50_000, width), np.dtype(kind), bands, True, "TIFF", rows=rows)
    assert 0 < block_bytes(info) <= 256 * MIB
    assert reading_bytes(info) >= block_bytes(info) + min(50_000 * width, 2 * 32 * MIB)
    assert reading_bytes(info) < 512 * MIB


@pytest.mark.parametrize(("tile", "rows"), [(None, [1398, 102]), ((64, 64), [1398, 10, 92])])
def test_bands_are_the_image(tmp_path, tile, rows):
    """In blocks of whole tiles, which are handed on in bands of 32 MiB at most."""
    pixels = np.random.default_rng(0).integers(0, 9999, (1500, 300, 40), np.uint16)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels, photometric="minisblack", planarconfig="contig", tile=tile)
    bands = list(image_bands(path, image_info(path)))
    assert [len(band) for band in bands] == rows
    np.testing.assert_array_equal(np.concatenate(bands), pixels)


def test_masks_that_are_decoded_as_a_whole_count(tmp_path):
    """Beside an image that is read in bands; as much as their own header says."""
    save(tmp_path / "0.png", noise(600, 800))
    tifffile.imwrite(tmp_path / "0.tif", noise(600, 800), photometric="rgb", tile=(64, 64))
    colours = MaskFolder(
        root=str(tmp_path), images="*.tif", masks="*.png", classes={"a": "#000000", "b": "#ffffff"}
    )
    pair = Pair("0", "0.tif", "0.png")
    image = Examiner(tmp_path, None).cost(pair)
    assert Examiner(tmp_path, MaskReader(colours)).cost(pair) - image >= 2 * 600 * 800 * 3


def test_many_thumbnails_are_compared_in_little_memory():
    rng = np.random.default_rng(0)
    thumbs = dict(enumerate(rng.integers(0, 256, (20_000, 16, 17), np.uint8)))
    thumbs[19_999] = np.clip(thumbs[7].astype(int) + 1, 0, 255).astype(np.uint8)
    tracemalloc.start()
    pairs = list(near(thumbs, range(2048), range(20_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pairs == [(7, 19_999)]
    assert peak < 64 * MIB
