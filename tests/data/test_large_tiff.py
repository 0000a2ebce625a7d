"""Windows of a TIFF that is far larger than the memory that reading them takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

from hires.data.images import image_info, read_image
from hires.interfaces import Window

REPOSITORY = Path(__file__).parents[2]
SIDE, TILE = 20_000, 256
BENCH = REPOSITORY / "tools" / "bench" / "image_windows.py"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """20,000 x 20,000 RGB of which every tile has the colour that its number makes."""
    path = tmp_path_factory.mktemp("large") / "large.tif"
    count = -(-SIDE // TILE)

    def tiles():
        for index in range(count * count):
            yield np.full((TILE, TILE, 3), (index // count, index % count, 7), np.uint8)

    shape = (SIDE, SIDE, 3)
    tifffile.imwrite(path, tiles(), shape=shape, dtype=np.uint8, tile=(TILE, TILE), compression="zlib")
    yield path
    path.unlink()


@pytest.mark.slow
def test_windows_of_20_000_by_20_000_pixels(large):
    assert image_info(large)[:4] == ((SIDE, SIDE), np.uint8, 3, True)
    rng = np.random.default_rng(0)
    for _ in range(20):
        y, x = (int(at) for at in rng.integers(0, SIDE - 512, 2))
        part = read_image(large, Window(y, x, 512, 512))
        rows, columns = np.arange(y, y + 512) // TILE, np.arange(x, x + 512) // TILE
        np.testing.assert_array_equal(part[..., 0], np.repeat(rows[:, None], 512, axis=1))
        np.testing.assert_array_equal(part[..., 1], np.repeat(columns[None], 512, axis=0))


@pytest.mark.slow
def test_they_are_fast_and_take_little_memory(large):
    """The project's bounds: 50 ms, 300 MiB. Measured are a few ms and about 10 MiB."""
    command = [sys.executable, str(BENCH), "--measure", str(large), "--windows", "30"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    figures = json.loads(told)
    assert figures["growth_bytes"] < 300 * 2**20
    assert figures["median_ms"] < 50
