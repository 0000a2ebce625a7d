"""Tiles cover an image; random windows lie inside it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hires.interfaces import Window
from hires.ops.windows import random_window, tiles, window_around

side = st.integers(1, 60)
sizes = st.tuples(side, side)


@given(sizes, sizes, st.floats(0, 0.95))
def test_tiles_cover_every_pixel_from_inside(size, window, overlap):
    covered = np.zeros(size, int)
    for tile in tiles(size, window, overlap):
        assert tile.y >= 0
        assert tile.x >= 0
        assert tile.y + tile.height <= size[0]
        assert tile.x + tile.width <= size[1]
        assert (tile.height, tile.width) == (min(size[0], window[0]), min(size[1], window[1]))
        covered[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width] += 1
    assert covered.all()


@given(sizes, sizes, st.floats(0, 0.95))
def test_tiles_are_row_major_and_overlap_at_least_as_asked(size, window, overlap):
    grid = tiles(size, window, overlap)
    assert grid == sorted(set(grid))
    for axis, length in ((0, grid[0].height), (1, grid[0].width)):
        starts = np.unique([tile[axis] for tile in grid])
        shared = length - np.diff(starts)
        assert (shared >= np.floor(length * overlap)).all() or length == 1
        assert (shared >= min(length - 1, length * overlap)).all()


def test_the_last_tile_is_shifted_inwards():
    assert [tile.x for tile in tiles((10, 25), (10, 10))] == [0, 10, 15]
    assert tiles((10, 20), (10, 10)) == [Window(0, 0, 10, 10), Window(0, 10, 10, 10)]


@pytest.mark.parametrize("overlap", [-0.1, 1.0])
def test_impossible_overlaps_are_refused(overlap):
    with pytest.raises(ValueError, match="overlap"):
        tiles((10, 10), (5, 5), overlap)


@given(sizes, sizes, st.integers(0, 2**32), st.data())
def test_random_windows_lie_inside(size, window, seed, data):
    pixel = data.draw(st.tuples(st.integers(0, size[0] - 1), st.integers(0, size[1] - 1)))
    rng = np.random.default_rng(seed)
    around = window_around(pixel, size, window, rng)
    for place in (random_window(size, window, rng), around):
        assert 0 <= place.y <= size[0] - place.height
        assert 0 <= place.x <= size[1] - place.width
    assert around.y <= pixel[0] < around.y + around.height
    assert around.x <= pixel[1] < around.x + around.width


def test_the_pixel_lies_anywhere_in_its_window():
    rng = np.random.default_rng(0)
    offsets = [500 - window_around((500, 500), (1000, 1000), (8, 8), rng).y for _ in range(400)]
    assert set(offsets) == set(range(8))


def test_random_windows_reach_every_place():
    rng = np.random.default_rng(0)
    assert {random_window((6, 4), (3, 3), rng)[:2] for _ in range(200)} == {
        (y, x) for y in range(4) for x in (0, 1)
    }
