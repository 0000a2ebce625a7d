"""Pictures of what was to be found and what was found."""

import base64

import cv2
import numpy as np
import pytest

from hires.interfaces import IGNORE, Window
from hires.ops.looks import SIDE, Look, Objects
from hires.visualize.pictures import Paint, pictures, visible

GRAY = np.full((100, 120, 3), 128, np.uint8)
COLOURS = np.array([(30, 90, 220), (200, 80, 30), (40, 140, 90)], np.uint8)


def decoded(uri):
    head, _, body = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    return cv2.imdecode(np.frombuffer(base64.b64decode(body), np.uint8), cv2.IMREAD_COLOR)[..., ::-1].astype(int)


@pytest.mark.parametrize(
    ("image", "low", "high"),
    [
        (np.array([[[1000], [3000]]], np.uint16), [1000], [3000]),
        (np.array([[[-1.0, -1, -1, 9], [1, 1, 1, 9]]], np.float32), [-1] * 4, [1] * 4),
        (np.array([[[5, 0], [7, 0]]], np.int16), [5, 0], [7, 1]),
    ],
)
def test_pixels_of_any_type_and_number_of_bands_become_rgb(image, low, high):
    shown = visible(image, low, high)
    assert shown.dtype == np.uint8
    assert shown.tolist() == [[[0, 0, 0], [255, 255, 255]]]


def test_pixels_beyond_and_without_a_value():
    image = np.array([[[-np.inf], [np.nan], [np.inf], [99.0]]], np.float32)
    assert visible(image, [0], [10])[0, :, 0].tolist() == [0, 0, 255, 255]


def test_labels_are_painted_but_for_one_class():
    truth = np.zeros((100, 120), np.uint8)
    truth[:50] = 1
    truth[:, :10] = IGNORE
    said = np.full((100, 120), 2, np.uint8)
    found = pictures(Look(0, 0.5, Window(0, 0, 100, 120), said), GRAY, truth, Paint(COLOURS, 0, multilabel=False))
    assert list(found) == ["truth", "prediction", "image"]
    shown = {name: decoded(uri) for name, uri in found.items()}
    painted = 0.55 * 128 + 0.45 * COLOURS[1]
    assert np.abs(shown["truth"][20, 60] - painted).max() < 12
    assert np.abs(shown["truth"][80, 60] - 128).max() < 6  # class 0 is left as it is
    assert np.abs(shown["truth"][20, 4] - (0.35 * 128 + 90)).max() < 8
    assert np.abs(shown["prediction"][80, 60] - (0.55 * 128 + 0.45 * COLOURS[2])).max() < 12
    assert np.abs(shown["image"] - 128).max() < 6


def test_several_labels_mix():
    both = pictures(
        Look(0, 0.5, Window(0, 0, 100, 120), np.full((100, 120), 3, np.uint8)),
        GRAY,
        np.zeros((100, 120), np.uint8),
        Paint(COLOURS[:2], None, multilabel=True),
    )
    pixel = decoded(both["prediction"])[50, 60]
    first = 0.55 * 128 + 0.45 * COLOURS[0]
    assert np.abs(pixel - (0.55 * first + 0.45 * COLOURS[1])).max() < 12


def test_boxes_lie_where_they_are_in_a_window_that_is_shown_smaller():
    window = Window(1000, 2000, 640, 640)
    wrong = Objects(np.array([[2100, 1200, 2300, 1400]], np.float32), np.zeros(1, int), np.zeros(1, bool))
    beyond = Objects(np.array([[0, 0, 9000, 9000]], np.float32), np.zeros(1, int), np.ones(1, bool))
    image = np.full((640, 640, 3), 128, np.uint8)
    found = pictures(
        Look(0, 0.5, window, truth=wrong, found=beyond), image, None, Paint(COLOURS[:1], None, multilabel=False)
    )
    truth = decoded(found["truth"])
    assert truth.shape == (SIDE, SIDE, 3)
    differs = np.abs(truth - 128).max(2) > 40
    ys, xs = np.nonzero(differs)
    assert (ys.min(), xs.min(), ys.max(), xs.max()) == pytest.approx((100, 50, 200, 150), abs=4)
    assert np.abs(decoded(found["prediction"]) - 128).max() < 6  # its sides lie outside
