"""Windows are placed on objects, or where there are none, as often as asked."""

import logging

import numpy as np
import pytest
from drawn_boxes import Boxes

from hires.data.augment import Augment
from hires.data.box_focus import BoxFocus
from hires.data.settings import WindowSettings
from hires.data.windows import WindowDataset
from hires.interfaces import DataError, Window
from hires.settings import SettingError


@pytest.fixture
def source():
    """Cars in the first image, one bus over the border of the second, a crowd of vans and nothing elsewhere."""
    return Boxes(
        [(200, 300), (150, 150), (100, 100), (400, 400)],
        [[(5, 5, 15, 25), (100, 150, 130, 160), (290, 10, 310, 20)], [(-6, 140, 10, 160)], [(40, 40, 60, 60)], []],
        [[0, 0, 0], [1], [2], []],
        [[False] * 3, [False], [True], []],
    )


def windows(source, size=(32, 32), focus=0.0, **options):
    return WindowDataset(source, size, WindowSettings(focus=focus, **options), Augment([]), 0, padding=0)


def counted(dataset, count=250):
    """Shares of the samples with an object to learn, and without any object."""
    targets = [dataset[(0, index)].target for index in range(count)]
    learnt = [bool((~target["ignored"]).any()) for target in targets]
    return np.mean(learnt), np.mean([not len(target["boxes"]) for target in targets])


def test_picked_pixels_lie_in_a_box(source):
    focus, rng = BoxFocus(source, None, 0.3), np.random.default_rng(0)
    picked = [focus.pick(rng) for _ in range(1500)]
    for image, y, x in picked:
        height, width = source.sizes[image]
        assert 0 <= y < height
        assert 0 <= x < width
        x1, y1, x2, y2 = source.boxes[image].T
        assert ((x1 <= x) & (x < x2) & (y1 <= y) & (y < y2)).any()
    images = np.bincount([image for image, _, _ in picked], minlength=4) / 1500
    np.testing.assert_allclose(images, [0.5, 0.5, 0, 0], atol=0.05)  # by class, and no crowd
    firsts = np.mean([x < 20 for image, _, x in picked if image == 0])
    assert firsts == pytest.approx(1 / 3, abs=0.06)
    assert len(set(picked)) > 400


def test_pixels_of_boxes_with_broken_edges():
    boxes = [(3.4, 2.6, 3.5, 2.9), (8.9, 0, 10.0, 0.5)]
    focus, rng = BoxFocus(Boxes([(10, 10)], [boxes], [[0, 1]]), None, 0.3), np.random.default_rng(0)
    assert {focus.pick(rng) for _ in range(100)} == {(0, 2, 3), (0, 0, 8), (0, 0, 9)}


def test_named_classes_only(source):
    focus, rng = BoxFocus(source, ["bus"], 0.3), np.random.default_rng(0)
    assert {focus.pick(rng)[0] for _ in range(50)} == {1}


def test_crowds_are_no_focus(source):
    assert not BoxFocus(source, ["van"], 0.3)


def test_unknown_classes_are_refused_with_the_nearest(source):
    with pytest.raises(SettingError, match=r"'cars'.*car, bus, van; did you mean car\?"):
        BoxFocus(source, ["cars"], 0.3)


def test_one_line_per_class(source, caplog):
    with caplog.at_level(logging.INFO):
        BoxFocus(source, ["car", "van"], 0.3)
    assert [record.getMessage() for record in caplog.records] == [
        "class car: 3 object(s), in 1 image(s), in focus",
        "class bus: 1 object(s), in 1 image(s)",
        "class van: 0 object(s), in 0 image(s), in focus",
    ]


def test_nothing_to_learn_is_an_error():
    with pytest.raises(DataError, match="^set: no training image holds an object.*data.window.focus=0"):
        BoxFocus(Boxes([(10, 10)], [[(1, 1, 5, 5)]], [[0]], [[True]]), None, 0.3)


@pytest.mark.parametrize(
    ("image", "window", "holds", "empty"),
    [
        (0, Window(0, 0, 32, 32), True, False),
        (0, Window(0, 12, 32, 32), True, False),  # 3 of 10 columns
        (0, Window(0, 13, 32, 32), False, False),
        (0, Window(0, 15, 32, 32), False, True),
        (2, Window(40, 40, 20, 20), False, False),  # a crowd
        (3, Window(0, 0, 32, 32), False, True),
    ],
)
def test_what_windows_hold(source, image, window, holds, empty):
    focus = BoxFocus(source, None, 0.3)
    assert focus.holds(image, window) == holds
    assert focus.is_empty(image, window) == empty


@pytest.mark.parametrize("focus", [0.0, 0.5, 1.0])
def test_the_share_of_focus_windows(source, focus):
    shows = np.mean([len(windows(source, focus=focus)[(0, index)].target["boxes"]) > 0 for index in range(300)])
    by_chance = 0.08
    assert shows == pytest.approx(focus + (1 - focus) * by_chance, abs=0.08)
    assert focus < 1 or shows == 1


@pytest.mark.parametrize("negatives", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("focus", [0.0, 0.7])
def test_the_share_of_windows_without_objects(source, negatives, focus):
    learnt, empty = counted(windows(source, focus=focus, negatives=negatives))
    assert empty == pytest.approx(negatives, abs=0.08)
    assert learnt == pytest.approx(1 - empty)


def test_no_empty_place_is_taken_as_it_comes():
    source = Boxes([(64, 64)], [[(0, 0, 64, 64)]], [[0]])
    assert counted(windows(source, min_visibility=0.1, negatives=1.0), 20) == (1.0, 0.0)


def test_objects_larger_than_windows_still_show():
    source = Boxes([(200, 200)], [[(0, 0, 100, 200)]], [[0]])
    _, empty = counted(windows(source, negatives=0.0), 50)
    assert empty == 0


def test_masks_have_no_negatives(small_set, settings):
    with pytest.raises(SettingError, match=r"data\.window\.negatives: got 0\.5, allowed: null"):
        WindowDataset(settings().source("train"), (16, 16), WindowSettings(negatives=0.5), Augment([]), 0)
