"""Training samples of boxes: what is drawn in a window is what its boxes say, whatever was done to it."""

import albumentations as A
import numpy as np
import pytest
import torch
from drawn_boxes import Boxes, colour
from hypothesis import given
from hypothesis import strategies as st

from hires.data.augment import Augment
from hires.data.loader import StepSampler, make_loader
from hires.data.settings import WindowSettings
from hires.data.windows import ResizeDataset, WindowDataset
from hires.interfaces import ConfigError


def grid_source(seed=0, images=2, size=(90, 110), instance_masks=False):
    """Objects that do not touch: each in a cell of its own, some of them over the image's border."""
    rng = np.random.default_rng(seed)
    boxes, labels = [], []
    for _ in range(images):
        corners = np.array([(x, y) for y in range(-5, size[0], 24) for x in range(-5, size[1], 24)])
        corners = corners[rng.random(len(corners)) < 0.7]
        low = corners + rng.integers(1, 5, corners.shape)
        boxes.append(np.concatenate([low, low + rng.integers(6, 16, corners.shape)], axis=1))
        labels.append(np.arange(len(corners)) % 3)
    return Boxes([size] * images, boxes, labels, instance_masks=instance_masks)


def windows(source, size=(40, 40), transforms=(), seed=0, scale=None, focus=0.5, **options):
    settings = WindowSettings(focus=focus, **options)
    return WindowDataset(source, size, settings, Augment(transforms), seed, scale, 0)


def visible(image, ident):
    """The box x1 y1 x2 y2 around the pixels that are at least half an object's colour; None without any."""
    own = colour(ident).astype(float)
    amount = image @ own / (own @ own)
    other = np.abs(image - amount[..., None] * own).max(axis=-1)
    ys, xs = np.nonzero((amount > 0.49) & (other < 8))
    return None if not len(ys) else np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])


def drawn(sample, count):
    """Of each object that shows in a sample its number and box."""
    image = sample.image.numpy().transpose(1, 2, 0)
    found = ((ident, visible(image, ident)) for ident in range(count))
    return {ident: box for ident, box in found if box is not None}


def check(sample, source, within=0.0):
    """Every object drawn has its box, every box an object drawn, labels and masks belong to it."""
    target, index = sample.target, int(sample.name.split("/")[1].split(".")[0])
    boxes = target["boxes"].numpy()
    found = drawn(sample, len(source.boxes[index]))
    matches = []
    for ident, box in found.items():
        offsets = np.abs(boxes - box).max(axis=1)
        assert offsets.min() <= within + 1e-3
        match = int(offsets.argmin())
        matches.append(match)
        assert target["labels"][match] == source.labels[index][ident]
        if "masks" in target:
            ys, xs = np.nonzero(target["masks"][match].numpy())
            np.testing.assert_allclose([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], box, atol=within + 1e-3)
    assert len(set(matches)) == len(matches)
    if not within:  # resizing may leave nothing of a narrow object's colour
        assert len(matches) == len(boxes)
    return matches


@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize(
    "transforms", [[], [A.D4()], [A.HorizontalFlip(), A.VerticalFlip(), A.Transpose(), A.RandomRotate90()]]
)
@pytest.mark.parametrize("size", [(40, 40), (100, 120), (30, 50)])
def test_boxes_follow_windows_padding_and_turns(masks, transforms, size):
    source = grid_source(instance_masks=masks)
    if size[0] != size[1]:
        transforms = [t for t in transforms if type(t).__name__ not in ("Transpose", "RandomRotate90")]
    dataset = windows(source, size, transforms)
    assert sum(len(check(dataset[(0, index)], source)) for index in range(12)) > 25


def test_types_and_sizes():
    sample = windows(grid_source(instance_masks=True))[(0, 0)]
    count = len(sample.target["boxes"])
    kinds = {name: (value.dtype, tuple(value.shape)) for name, value in sample.target.items()}
    assert kinds == {
        "boxes": (torch.float32, (count, 4)),
        "labels": (torch.int64, (count,)),
        "ignored": (torch.bool, (count,)),
        "size": (torch.int64, (2,)),
        "masks": (torch.uint8, (count, 40, 40)),
    }
    assert sample.target["size"].tolist() == [40, 40]
    assert sample.image.dtype == torch.uint8


def test_windows_without_objects():
    source = Boxes([(50, 50)], [[]], [[]], instance_masks=True)
    for transforms in ([], [A.D4(), A.Affine(rotate=(-45, 45), p=1)]):
        target = windows(source, transforms=transforms, focus=0)[(0, 0)].target
        assert target["boxes"].shape == (0, 4)
        assert target["masks"].shape == (0, 40, 40)
        assert target["labels"].dtype == torch.int64


@pytest.mark.parametrize("scale", [(0.5, 2.0), (0.37, 0.37), (3.1, 3.1)])
@pytest.mark.parametrize("masks", [False, True])
def test_boxes_are_scaled_as_the_image_is(scale, masks):
    source = grid_source(instance_masks=masks)
    dataset = windows(source, (48, 64), [A.D4()], scale=scale)
    assert sum(len(check(dataset[(0, index)], source, within=1)) for index in range(20)) > 10


@pytest.mark.parametrize("size", [(64, 64), (200, 100), (45, 55)])
def test_whole_images(size):
    source = grid_source(size=(90, 113), instance_masks=True)
    dataset = ResizeDataset(source, size, WindowSettings(), Augment([A.D4()]), 0, padding=0)
    assert sum(len(check(dataset[(0, index)], source, within=1)) for index in range(4)) > 20


rectangles = st.lists(
    st.tuples(st.integers(-20, 55), st.integers(-20, 55), st.integers(1, 60), st.integers(1, 60)), max_size=8
)


@given(rectangles, st.integers(0, 1000), st.sampled_from([0.0, 0.3, 0.8, 1.0]), st.booleans())
def test_what_a_window_holds_of_the_image(shapes, seed, least, turned):
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h in shapes], np.float32).reshape(-1, 4)
    source = Boxes([(60, 60)], [boxes], [np.arange(len(boxes)) % 3])
    boxes, labels = source.boxes[0], source.labels[0]
    transforms = [A.HorizontalFlip(p=1), A.HorizontalFlip(p=1)] if turned else []
    sample = windows(source, (20, 24), transforms, seed, focus=0, min_visibility=least)[(0, 0)]
    _, y, x, *_ = source.reads[-1]
    back = sample.target["boxes"].numpy() + np.array([x, y, x, y])
    window = np.array([x, y, x + 24, y + 20])
    assert (back[:, :2] >= window[:2]).all()
    assert (back[:, 2:] <= window[2:]).all()
    inside = np.concatenate([np.maximum(boxes[:, :2], window[:2]), np.minimum(boxes[:, 2:], window[2:])], axis=1)
    sides = (inside[:, 2:] - inside[:, :2]).clip(0)
    shares = sides.prod(axis=1) / (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    shows = shares > 0
    np.testing.assert_allclose(back, inside[shows], atol=1e-3)
    assert sample.target["labels"].tolist() == labels[shows].tolist()
    assert sample.target["ignored"].tolist() == (shares < least)[shows].tolist()


def test_ignored_objects_stay_ignored():
    source = Boxes([(60, 60)], [[(0, 0, 30, 30), (30, 30, 60, 60)]], [[0, 1]], [[True, False]])
    target = windows(source, (60, 60), [A.D4()], focus=0)[(0, 0)].target
    assert dict(zip(target["labels"].tolist(), target["ignored"].tolist(), strict=True)) == {0: True, 1: False}


def test_objects_below_a_pixel_are_ignored():
    source = Boxes([(60, 60)], [[(10, 10, 30, 13), (10, 40, 30, 44)]], [[0, 1]])
    target = windows(source, (60, 60), scale=(0.3, 0.3), focus=0)[(0, 0)].target
    assert target["ignored"].tolist() == [True, False]
    np.testing.assert_allclose(target["boxes"][0].tolist(), [3, 3, 9, 3.9], atol=0.01)


@pytest.mark.parametrize("chain", [1, 2])
def test_what_augmentation_pushes_out_is_ignored(chain):
    """Half of the object, then a quarter of it, is left by the right border."""
    source = Boxes([(40, 40)], [[(20, 10, 40, 30), (0, 0, 5, 5)]], [[0, 1]], instance_masks=True)
    move = A.Affine(translate_px={"x": (10 // chain, 10 // chain), "y": (0, 0)}, p=1)
    for least, ignored in [(0.49, False), (0.51, True)]:
        target = windows(source, transforms=[move] * chain, focus=0, min_visibility=least)[(0, 0)].target
        assert target["ignored"].tolist() == [ignored, False]
        np.testing.assert_allclose(target["boxes"][0], [30, 10, 40, 30], atol=1e-3)
        assert target["masks"][0].sum() == 200


def test_shares_of_the_window_and_of_augmentation_multiply():
    """Half of the object lies beyond the image, half of the rest is pushed out."""
    source = Boxes([(40, 40)], [[(30, 10, 50, 30)]], [[0]])
    move = A.Affine(translate_px={"x": (5, 5), "y": (0, 0)}, p=1)
    for least, ignored in [(0.24, False), (0.26, True)]:
        target = windows(source, transforms=[move], focus=0, min_visibility=least)[(0, 0)].target
        np.testing.assert_allclose(target["boxes"], [[35, 10, 40, 30]], atol=1e-3)
        assert target["ignored"].tolist() == [ignored]


def test_objects_that_all_leave():
    source = Boxes([(40, 40)], [[(30, 10, 40, 30)]], [[0]], instance_masks=True)
    moves = [A.Affine(translate_px={"x": (15, 15), "y": (0, 0)}, p=1), A.D4()]
    target = windows(source, transforms=moves, focus=0)[(0, 0)].target
    assert target["boxes"].shape == (0, 4)
    assert target["masks"].shape == (0, 40, 40)


def test_objects_outside_are_dropped_with_their_masks():
    source = Boxes([(40, 40)], [[(30, 10, 40, 30), (0, 0, 5, 5)]], [[0, 1]], instance_masks=True)
    move = A.Affine(translate_px={"x": (15, 15), "y": (0, 0)}, p=1)
    target = windows(source, transforms=[move], focus=0)[(0, 0)].target
    assert target["labels"].tolist() == [1]
    assert target["masks"].sum().item() == 25
    np.testing.assert_array_equal(np.nonzero(target["masks"][0].numpy().any(axis=0)), [range(15, 20)])


@pytest.mark.parametrize("border", [0, 1, 2, 3, 4])
def test_borders_show_no_second_object(border):
    source = grid_source(images=1, instance_masks=True)
    shrink = A.Affine(scale=(0.5, 0.5), border_mode=border, p=1)
    sample = windows(source, (90, 110), [shrink], focus=0)[(0, 0)]
    plain = windows(source, (90, 110), focus=0)[(0, 0)]
    assert sample.target["labels"].tolist() == plain.target["labels"].tolist()
    small, large = (s.target["boxes"].numpy() for s in (sample, plain))
    np.testing.assert_allclose(small[:, 2:] - small[:, :2], (large[:, 2:] - large[:, :2]) / 2, atol=0.1)
    assert sample.target["masks"].max() == 1
    assert sample.target["masks"].sum() == pytest.approx(int(plain.target["masks"].sum()) / 4, rel=0.15)


@pytest.mark.parametrize(
    "transform",
    [
        A.Rotate((30, 30), p=1),
        A.Affine(rotate=(-20, -20), shear=10, p=1),
        A.Perspective((0.1, 0.1), p=1),
        A.ElasticTransform(alpha=100, sigma=8, p=1),
        A.GridDistortion(p=1),
        A.OneOf([A.Sequential([A.SafeRotate((45, 45), p=1)]), A.D4()], p=1),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_free_transforms_keep_objects_in_their_boxes(transform):
    source = grid_source(instance_masks=True)
    dataset, seen = windows(source, (64, 64), [transform, A.D4()]), 0
    for index in range(6):
        target = dataset[(0, index)].target
        for (x1, y1, x2, y2), mask in zip(target["boxes"].tolist(), target["masks"].numpy(), strict=True):
            ys, xs = np.nonzero(mask)
            if len(ys) < 20:
                continue
            seen += 1
            assert x1 - 2 <= xs.min() <= xs.max() + 1 <= x2 + 2
            assert y1 - 2 <= ys.min() <= ys.max() + 1 <= y2 + 2
    assert seen > 10


@pytest.mark.parametrize("transform", [A.RandomCrop(20, 20), A.RandomGridShuffle((2, 2), p=1)])
def test_transforms_that_boxes_cannot_follow(transform):
    source = Boxes([(40, 40)], [[(5, 5, 30, 30)]], [[0]])
    dataset = windows(source, transforms=[transform], focus=0)
    with pytest.raises(ConfigError, match=f"given: {type(transform).__name__}"):
        [dataset[(0, index)] for index in range(20)]


def test_transforms_of_pixels_leave_boxes_alone():
    source = grid_source()
    plain, noisy = windows(source), windows(source, transforms=[A.GaussNoise(p=1)])
    for index in range(5):
        first, second = plain[(0, index)], noisy[(0, index)]
        assert not torch.equal(first.image, second.image)
        assert torch.allclose(first.target["boxes"], second.target["boxes"], atol=1e-3)


@pytest.fixture
def dataset():
    augment = [A.D4(), A.Affine(rotate=(-45, 45), p=0.5), A.GaussNoise()]
    return windows(grid_source(instance_masks=True), (32, 32), augment, 3, scale=(0.5, 2.0), negatives=0.3)


def test_workers_change_nothing(dataset):
    sampler = StepSampler(12, 4, 1, 4)
    runs = [list(make_loader(dataset, sampler, workers, pin_memory=False)) for workers in (0, 1, 2)]
    for steps in zip(*runs, strict=True):
        for first, *others in zip(*steps, strict=True):
            for other in others:
                assert torch.equal(first.image, other.image)
                assert first.target.keys() == other.target.keys()
                assert all(torch.equal(value, other.target[name]) for name, value in first.target.items())
