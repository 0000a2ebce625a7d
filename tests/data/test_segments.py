"""Masks of objects are those that pycocotools makes, and those of a window are a part of them."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hires.data.rasterize import decoded_runs, polygon_pixels
from hires.data.segments import Segments, parsed
from hires.interfaces import Window

coco_mask = pytest.importorskip("pycocotools.mask")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pycocotools.*")
SIZE = (48, 64)
WHOLE = Window(0, 0, *SIZE)
SEEDS = st.integers(0, 2**32 - 1)


def blobs(seed):
    rng = np.random.default_rng(seed)
    return cv2.blur(rng.random(SIZE), (5, 5)) > rng.uniform(0.4, 0.6)


def painted(mask, size=SIZE):
    canvas = np.zeros(size, bool)
    canvas[mask.y : mask.y + mask.mask.shape[0], mask.x : mask.x + mask.mask.shape[1]] = mask.mask
    return canvas


def one(segmentation, window=WHOLE):
    return Segments([parsed(segmentation, SIZE)]).masks(np.array([0]), window)[0]


def uncompressed(mask):
    flat = mask.ravel(order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff(np.concatenate([[0], changes, [flat.size]])).tolist()
    return {"size": list(SIZE), "counts": [0, *runs] if flat[0] else runs}


@given(SEEDS)
def test_run_lengths_give_back_their_mask(seed):
    mask = blobs(seed)
    compressed = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
    for given_form in (uncompressed(mask), {"size": list(SIZE), "counts": compressed["counts"].decode()}):
        np.testing.assert_array_equal(painted(one(given_form)), mask)


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=30))
def test_compressed_runs_of_any_length(runs):
    rle = coco_mask.frPyObjects({"size": [1, sum(runs)], "counts": runs}, 1, sum(runs))
    assert decoded_runs(rle["counts"].decode()).tolist() == runs


@given(SEEDS, st.integers(3, 12))
def test_polygons_differ_from_pycocotools_at_borders_only(seed, corners):
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
    radius = rng.uniform(4, 40, corners)  # beyond the image too
    ring = np.stack([32 + radius * np.cos(angles), 24 + radius * np.sin(angles)], axis=1)
    expected = coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects([ring.ravel().tolist()], *SIZE))).astype(
        bool
    )
    differ = painted(one([ring.ravel().tolist()])) != expected
    border = np.zeros(SIZE, np.uint8)
    cv2.polylines(border, [np.round((ring - 0.5) * 16).astype(np.int32)], True, 1, 3, shift=4)
    assert not (differ & (border == 0)).any()


def test_a_pixel_belongs_to_the_polygon_that_has_its_centre():
    square = np.array([[2, 3], [6, 3], [6, 5], [2, 5]], np.float32)
    expected = np.zeros((8, 9), bool)
    expected[3:5, 2:6] = True
    for shift, moved in ((0, 0), (0.4, 0), (0.6, 1)):
        pixels = polygon_pixels(square + np.float32(shift), Window(0, 0, 8, 9))
        np.testing.assert_array_equal(pixels, np.roll(expected, (moved, moved), (0, 1)))


def test_several_polygons_of_one_object_add_up():
    first, second = [1, 1, 9, 1, 9, 9, 1, 9], [5, 5, 20, 5, 20, 20, 5, 20]
    both = painted(one([first, second]))
    np.testing.assert_array_equal(both, painted(one([first])) | painted(one([second])))
    assert both[6, 6]


@given(SEEDS, st.integers(0, 47), st.integers(0, 63), st.integers(1, 30), st.integers(1, 30))
def test_windows_are_parts_of_the_whole(seed, y, x, height, width):
    window = Window(y, x, min(height, SIZE[0] - y), min(width, SIZE[1] - x))
    mask = blobs(seed)
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    rings = [(ring[:, 0] + 0.4).ravel().tolist() for ring in contours if len(ring) > 2]
    for segmentation in (uncompressed(mask), rings or uncompressed(mask)):
        whole, part = painted(one(segmentation)), one(segmentation, window)
        inside = whole[window.y : window.y + window.height, window.x : window.x + window.width]
        np.testing.assert_array_equal(painted(part, (window.height, window.width)), inside)
        if part.mask.size:
            assert part.mask[0].any()
            assert part.mask[-1].any()
            assert part.mask[:, 0].any()
            assert part.mask[:, -1].any()


def test_taking_some_keeps_their_masks():
    polygons = [[[x, 5, x + 4, 5, x + 4, 9]] for x in (1, 11, 21)]
    runs = uncompressed(blobs(1))
    segments = Segments([parsed(given, SIZE) for given in (*polygons, runs)])
    part = segments.take(np.array([3, 1])).take(np.array([1, 0]))
    assert part.masks(np.array([0]), WHOLE)[0].x == 11
    np.testing.assert_array_equal(painted(part.masks(np.array([1]), WHOLE)[0]), blobs(1))
    assert segments.masks(np.zeros(0, int), WHOLE).shape == (0,)


@pytest.mark.parametrize(
    ("segmentation", "problem"),
    [
        (None, "has no segmentation"),
        ([], "has no segmentation"),
        ({}, "has no segmentation"),
        ([[1, 2, 3, 4]], "three points or more"),
        ([[1, 2, 3, 4, 5, 6, 7]], "three points or more"),
        ([[1, 2, 3, 4, 5, float("nan")]], "three points or more"),
        ({"size": [48, 64], "counts": [3, 4]}, "do not add up"),
        ({"size": [48, 64], "counts": [-1, 3073]}, "do not add up"),
        ({"size": [64, 48], "counts": [3072]}, r"\[64, 48\] \(height, width\), its image is \[48, 64\]"),
        ({"size": [48, 64], "counts": ""}, "no run length encoding"),
        ({"size": [48, 64], "counts": "\x01"}, "no run length encoding"),
        ({"size": [48, 64], "counts": "oooooooooooooo0"}, "too long a run"),
    ],
)
def test_what_is_no_mask(segmentation, problem):
    with pytest.raises(ValueError, match=problem):
        parsed(segmentation, SIZE)
