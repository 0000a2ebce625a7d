"""Masks whose values are numbers of objects become boxes and masks of those objects."""

import cv2
import numpy as np
import pytest
import tifffile
from box_files import images
from hypothesis import given
from hypothesis import settings as few
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from image_files import save
from PIL import Image

from hires.data.checks.survey import Shown, survey
from hires.data.instance_folder import InstanceFolder
from hires.data.instance_masks import Reading, objects_of, read_runs
from hires.data.segments import Segments
from hires.interfaces import DataError, Window
from hires.settings import SettingError


def drawn(kind=np.uint8):
    mask = np.zeros((40, 60), kind)
    mask[2:8, 3:12] = 1
    mask[0:40, 20:25] = 7
    mask[30:34, 30:50] = 200
    mask[36:38, 58:60] = 200
    return mask


BOXES = [[3, 2, 12, 8], [20, 0, 25, 40], [30, 30, 60, 38]]
AREAS = [54, 200, 84]


@pytest.fixture
def settings(folder):
    images(folder, "images/a.png")

    def make(**changes):
        usual = {"images": "images/*", "masks": "masks/*", "classes": ["cell"], "splits": {}, "cache_gib": 0}
        return InstanceFolder(root=str(folder), **(usual | changes))

    return make


def target(source, window=None):
    return source.read(0, window)[1]


@pytest.mark.parametrize(
    ("kind", "ending"),
    [(np.uint8, "png"), (np.uint16, "png"), (np.uint8, "tif"), (np.uint16, "tif"), (np.int32, "tif")],
)
def test_boxes_areas_and_masks(folder, settings, kind, ending):
    mask = drawn(kind) * (1 if kind == np.uint8 else 150)
    save(folder / f"masks/a.{ending}", mask)
    source = settings(instance_masks=True).source("train")
    found = target(source)
    assert source.classes == ("cell",)
    assert found["boxes"].tolist() == BOXES
    assert (found["areas"].tolist(), found["labels"].tolist()) == (AREAS, [0, 0, 0])
    for value, one in zip(np.unique(mask)[1:], found["masks"], strict=True):
        y, x = one.y, one.x
        np.testing.assert_array_equal(one.mask, mask[y : y + len(one.mask), x : x + one.mask.shape[1]] == value)
        assert one.mask.sum() == (mask == value).sum()
    part = target(source, Window(5, 10, 30, 40))
    assert [one.mask.sum() for one in part["masks"]] == [6, 150, 80]


def test_palettes_give_their_indices(folder, settings):
    palette = Image.fromarray(drawn()).convert("L")
    palette.putpalette([value for index in range(256) for value in (index, 0, 255 - index)])
    (folder / "masks").mkdir(parents=True)
    palette.save(folder / "masks/a.png")
    assert target(settings().source("train"))["boxes"].tolist() == BOXES


def test_ids_that_are_colours(folder, settings):
    ids = drawn().astype(np.uint32) * 65_793  # red, green and blue count
    save(folder / "masks/a.png", np.stack([ids & 255, ids >> 8 & 255, ids >> 16], axis=2).astype(np.uint8))
    assert target(settings(ids="rgb").source("train"))["boxes"].tolist() == BOXES
    found = settings(ids="rgb", divisor=65_793, classes={"a": 1, "b": [7, 200]}).source("train")
    assert target(found)["labels"].tolist() == [0, 1, 1]
    with pytest.raises(DataError, match="a.png: a mask has one channel"):
        settings().source("train")


def test_classes_by_division(folder, settings):
    """As in Cityscapes: class 26 is a car, 24 a person; 23 (sky) is no object, and 26 alone a group of cars."""
    mask = np.zeros((40, 60), np.uint16)
    for place, value in enumerate([26_001, 26_000, 24_003, 26, 23, 25_001]):
        mask[5:10, place * 8 : place * 8 + 6] = value
    save(folder / "masks/a.png", mask)
    cityscapes = {"divisor": 1000, "classes": {"person": 24, "car": 26}}
    found = target(settings(**cityscapes, unlisted="drop").source("train"))
    order = np.argsort(found["boxes"][:, 0])
    assert found["boxes"][order, 0].tolist() == [0, 8, 16, 24]
    assert found["labels"][order].tolist() == [1, 1, 0, 1]
    assert found["ignored"][order].tolist() == [False, False, False, True]
    with pytest.raises(DataError, match="a.png: class 25 is none of person, car"):
        settings(**cityscapes).source("train")
    rider = target(settings(**cityscapes, ignore_classes=[25]).source("train"))
    assert rider["ignored"].sum() == 2
    merged = settings(divisor=1000, classes={"thing": [24, 25, 26]}).source("train")
    assert set(target(merged)["labels"].tolist()) == {0}


def test_parts_that_do_not_touch(folder, settings):
    """A mask of 0 and 255 holds as many objects as it has parts; corners touch."""
    mask = (drawn() > 0).astype(np.uint8) * 255
    mask[8, 12] = 255
    save(folder / "masks/a.png", mask)
    found = target(settings(parts="apart", instance_masks=True).source("train"))
    assert sorted(found["boxes"].tolist()) == [[3, 2, 13, 9], [20, 0, 25, 40], [30, 30, 50, 34], [58, 36, 60, 38]]
    assert sum(one.mask.sum() for one in found["masks"]) == (mask > 0).sum()
    large = target(settings(parts="apart", min_pixels=5).source("train"))
    assert len(large["boxes"]) == 3


def test_soft_masks_have_a_threshold(folder, settings):
    soft = cv2.GaussianBlur((drawn() > 0).astype(np.uint8) * 255, (3, 3), 0)
    save(folder / "masks/a.png", soft)
    found = target(settings(parts="apart", threshold=127).source("train"))
    assert sorted(found["boxes"].tolist()) == [[3, 2, 12, 8], [20, 0, 25, 40], [30, 30, 50, 34], [58, 36, 60, 38]]


def test_what_is_too_small_is_told(folder, settings, caplog):
    save(folder / "masks/a.png", drawn())
    assert len(target(settings(min_pixels=60).source("train"))["boxes"]) == 2
    assert "1 object(s) have less than data.min_pixels=60 and are left out: images/a.png" in caplog.text


def test_background_and_masks_without_objects(folder, settings):
    save(folder / "masks/a.png", drawn())
    assert len(target(settings(background_ids=[0, 7]).source("train"))["boxes"]) == 2
    save(folder / "masks/a.png", np.zeros((40, 60), np.uint8))
    found = target(settings(instance_masks=True).source("train"))
    assert (found["boxes"].shape, found["masks"].shape) == ((0, 4), (0,))
    (folder / "masks/a.png").unlink()
    images(folder, "images/b.png", "masks/b.png")
    save(folder / "masks/b.png", drawn())
    assert len(settings(missing_labels="negative").source("train").objects(0)["boxes"]) == 0
    with pytest.raises(DataError, match=r"1 image\(s\) without mask: images/a.png"):
        settings().source("train")


def test_the_cache_changes_nothing(folder, settings):
    save(folder / "masks/a.png", drawn())
    cached = {"cache_gib": 1, "cache_dir": str(folder / "cache")}
    for _ in range(2):
        assert target(settings(**cached).source("train"))["boxes"].tolist() == BOXES
    apart = settings(**cached, parts="apart").source("train")
    assert len(target(apart)["boxes"]) == 4


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.zeros((40, 61), np.uint8), "mask is 40x61 .* its image 40x60"),
        (np.full((40, 60), -3, np.int32), "negative value -3"),
        (np.full((40, 60), -1, np.int16), "negative value -1"),
        (np.zeros((40, 60, 3), np.uint8), "one channel of whole numbers.*mode RGB; set data.ids=rgb"),
        (np.zeros((40, 60), np.float32), "float32"),
    ],
)
def test_masks_that_hold_no_ids(folder, settings, array, problem):
    save(folder / "masks/a.tif", array)
    with pytest.raises(DataError, match=f"masks/a.tif: .*{problem}"):
        settings().source("train")


def test_ids_of_signed_bytes_are_no_large_ones(folder, settings):
    (folder / "masks").mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(folder / "masks/a.tif", np.full((40, 60), -1, np.int8))
    with pytest.raises(DataError, match=r"masks/a\.tif: holds the negative value -1"):
        settings().source("train")


def test_broken_masks_and_their_neighbours(folder, settings):
    path = save(folder / "masks/a.png", drawn())
    path.write_bytes(path.read_bytes()[:60])
    images(folder, "images/b.png")
    save(folder / "masks/b.png", drawn())
    with pytest.raises(DataError, match="masks/a.png"):
        settings().source("train")
    sound = settings(on_error="skip").source("train")
    assert [sound.name(index) for index in range(len(sound))] == ["images/b.png"]


def test_a_photograph_is_no_mask_of_objects(folder, settings):
    images(folder, "images/b.png", size=(400, 400))
    save(folder / "masks/b.png", np.random.default_rng(0).integers(0, 256, (400, 400, 3), np.uint8))
    with pytest.raises(DataError, match="b.png: has more than 100000 objects"):
        settings(ids="rgb", images="images/b*").source("train")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"classes": ["a", "b"]}, "classes"),
        ({"classes": {"a": 1}}, "classes"),
        ({"divisor": 1000}, "classes"),
        ({"divisor": 0, "classes": {"a": 1}}, "divisor"),
        ({"background_ids": [-1]}, "background_ids"),
        ({"min_pixels": 0}, "min_pixels"),
        ({"threshold": 127, "ids": "rgb"}, "threshold"),
        ({"threshold": 127, "divisor": 2, "classes": {"a": 1}}, "threshold"),
        ({"ids": "colour"}, "ids"),
    ],
)
def test_settings_that_cannot_be_meant(settings, changes, field):
    with pytest.raises(SettingError) as caught:
        settings(**changes)
    assert caught.value.field == field


SMALL = arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 3))


@few(max_examples=60, deadline=None)
@given(SMALL, st.booleans())
def test_every_pixel_belongs_to_the_object_that_it_names(tmp_path_factory, mask, apart):
    path = save(tmp_path_factory.getbasetemp() / "any.png", mask)
    found = objects_of(read_runs(path, mask.shape, Reading(apart=apart)), mask.shape)
    segments = Segments(list(found.segments(range(len(found.ids)))))
    painted, numbers = np.zeros_like(mask), range(len(found.ids))
    for index, one in enumerate(segments.masks(np.array(numbers, int), Window(0, 0, *mask.shape))):
        height, width = one.mask.shape
        assert [one.x, one.y, one.x + width, one.y + height] == found.boxes[index].tolist()
        assert one.mask.sum() == found.areas[index]
        painted[one.y : one.y + height, one.x : one.x + width][one.mask] = found.ids[index]
    np.testing.assert_array_equal(painted, mask)
    if apart:
        parts = sum(cv2.connectedComponents((mask == v).astype(np.uint8))[0] - 1 for v in (1, 2, 3))
        assert len(found.ids) == parts
    else:
        assert found.ids.tolist() == sorted(set(mask.ravel().tolist()) - {0})


def test_check_data_counts_the_objects(folder, settings):
    save(folder / "masks/a.png", drawn())
    found = survey(settings(), Shown((64, 64), "window", 1), lambda done, all_: None)
    assert [(one.name, one.counts) for one in found.classes] == [("cell", {"train": 3})]
