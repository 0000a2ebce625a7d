"""Outlines of masks enclose exactly their pixels."""

import numpy as np
import pytest

from hires.data.outlines import with_holes
from hires.data.rasterize import polygon_pixels
from hires.interfaces import Window
from hires.predictions.outlines import polygons_of, signed_area


def filled(polygons, shape):
    whole = Window(0, 0, *shape)
    drawn = [polygon_pixels(with_holes(polygon).astype(np.float32), whole) for polygon in polygons]
    return np.logical_or.reduce([np.zeros(shape, bool), *drawn])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_random_masks_come_back(seed, share):
    mask = np.random.default_rng(seed).random((17, 23)) < share
    polygons = polygons_of(mask)
    assert np.array_equal(filled(polygons, mask.shape), mask)
    areas = [[signed_area(ring) for ring in polygon] for polygon in polygons]
    assert sum(map(sum, areas)) == mask.sum()
    assert all(border > 0 and all(hole < 0 for hole in holes) for border, *holes in areas)


def test_a_ring_is_a_border_with_a_hole():
    mask = np.ones((5, 6), bool)
    mask[2, 2:4] = False
    ((border, hole),) = polygons_of(mask)
    assert sorted(border.tolist()) == [[0, 0], [0, 5], [6, 0], [6, 5]]
    assert sorted(hole.tolist()) == [[2, 2], [2, 3], [4, 2], [4, 3]]


def test_no_pixels_no_polygons():
    assert polygons_of(np.zeros((3, 3), bool)) == []
