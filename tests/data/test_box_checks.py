"""Boxes are put right and counted by kind."""

import logging

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hires.data.box_checks import cleaned
from hires.data.box_objects import Images, made

IMAGES = Images(["a.png", "b.png"], np.array([[40, 60], [100, 100]]), np.array([1, 2]))


def clean(boxes, images=None, classes=None):
    images = np.zeros(len(boxes)) if images is None else np.array(images)
    classes = np.zeros(len(boxes)) if classes is None else np.array(classes)
    return cleaned(made(images, np.array(boxes, float), classes), IMAGES)


def test_each_kind_of_dirt():
    boxes = [
        [5, 5, 20, 20],
        [7, 7, 7, 9],  # no width
        [9, 9, 4, 20],  # inverted
        [60, 2, 80, 9],  # beside the image
        [-3, 30, 10, 55],  # beyond it
        [50, 30, 60.009, 40],  # beyond it by rounding
        [5, 5, 20, 20],  # again
        [5, 5, 20, 20],  # of another class
        [5, 5, 20, 20],  # in another image
    ]
    objects, which, findings = clean(boxes, [0] * 8 + [1], [0] * 7 + [1, 0])
    assert which.tolist() == [0, 4, 5, 7, 8]
    assert objects.ids.tolist() == [1, 5, 6, 8, 9]
    assert objects.boxes[1:3].tolist() == [[0, 30, 10, 40], [50, 30, 60, 40]]
    assert [(finding.number, finding.what.split(" ", 1)[1].split(" ")[0]) for finding in findings] == [
        *((2, "without"), (1, "lie"), (1, "reach"), (1, "repeat")),
    ]
    assert {tuple(finding.names) for finding in findings} == {("a.png",)}


def test_one_line_a_kind(tmp_path, caplog):
    findings = clean([[-1, 0, 5, 5], [-2, 0, 5, 5], [50, 50, 150, 60]], [0, 0, 1])[2]
    with caplog.at_level(logging.WARNING):
        for finding in findings:
            finding.warn(tmp_path)
    what = "3 box(es) reach beyond their image and are clipped: a.png, b.png"
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path}: {what}"]


def test_nothing_to_clean():
    objects, which, findings = clean(np.zeros((0, 4)))
    assert (len(objects.boxes), len(which), findings) == (0, 0, [])
    assert clean([[0, 0, 60, 40]])[2] == []


@given(arrays(float, (7, 4), elements=st.floats(-90, 90)), st.lists(st.integers(0, 1), min_size=7, max_size=7))
def test_what_is_left_lies_in_its_image_and_needs_no_second_cleaning(boxes, images):
    objects, which, _ = clean(boxes, sorted(images))
    sizes = IMAGES.sizes[objects.images]
    assert (objects.boxes >= 0).all()
    assert (objects.boxes[:, 2:] <= sizes[:, ::-1]).all()
    assert (objects.boxes[:, 2:] - objects.boxes[:, :2] >= 1e-3).all()
    again, same, _ = cleaned(objects, IMAGES)
    np.testing.assert_array_equal(again.boxes, objects.boxes)
    assert len(same) == len(which)
