"""A mask of 20,000 x 20,000 pixels is written in bands."""

import json
import sys

import numpy as np
import pytest
import tifffile

from hires.data.images import image_size
from tests.integration.test_huge_images import GIB, needs_proc, peak_anonymous_bytes, train_on, write_pair

SIDE = 20_000


@pytest.mark.slow
@needs_proc
def test_20000_pixels_in_3_gib(tmp_path, hires):
    """A tiled TIFF, of which windows are read; all of it has 1.1 GiB."""
    write_pair(tmp_path / "set", "train_0", 128)
    write_pair(tmp_path / "set", "test_0", 128)
    train_on(tmp_path / "set", tmp_path / "run", hires)
    rows = (np.arange(SIDE) // 97 % 3 * 80).astype(np.uint8)
    tiles = (np.repeat(rows[top : top + 512, None], 512, axis=1) for top in range(0, SIDE, 512) for _ in range(40))
    padded = (np.pad(tile, ((0, 512 - len(tile)), (0, 0)))[..., None].repeat(3, 2) for tile in tiles)
    options = {"photometric": "rgb", "tile": (512, 512), "compression": "zlib"}
    tifffile.imwrite(tmp_path / "scene.tif", padded, shape=(SIDE, SIDE, 3), dtype=np.uint8, **options)
    arguments = [f"run={tmp_path / 'run'}", f"source={tmp_path / 'scene.tif'}", f"out={tmp_path / 'out'}"]
    more = ["evaluation.overlap=0", "overlay_size=1000"]
    peak = peak_anonymous_bytes(sys.executable, "-m", "hires.cli", "predict", *arguments, *more)
    result = json.loads((tmp_path / "out" / "predict.json").read_text())
    assert result["megapixels"] == SIDE * SIDE / 1e6
    assert image_size(tmp_path / "out" / "masks" / "scene.png") == (SIDE, SIDE)
    assert image_size(tmp_path / "out" / "overlays" / "scene.jpg") == (1000, 1000)
    assert peak < 3 * GIB, peak / GIB
