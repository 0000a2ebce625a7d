"""Training samples are functions of their index, and look where they should."""

import numpy as np
import pytest
import torch
from image_files import noise, save

from hires.data.augment import Augment
from hires.data.settings import WindowSettings
from hires.data.windows import ResizeDataset, WindowDataset, windows_in_epoch
from hires.interfaces import IGNORE


@pytest.fixture
def source(small_set, settings):
    return settings().source("train")


def windows(source, size=(16, 24), focus=0.5, seed=0, **options):
    return WindowDataset(source, size, WindowSettings(focus=focus, **options), Augment([]), seed)


@pytest.mark.parametrize(
    "make", [windows, lambda source: ResizeDataset(source, (16, 24), WindowSettings(), Augment([]), 0)]
)
def test_samples_have_the_size_and_types_asked(source, make):
    dataset = make(source)
    for index in range(12):
        sample = dataset[(0, index)]
        assert sample.image.shape == (3, 16, 24)
        assert sample.image.dtype == torch.uint8
        assert sample.target["mask"].shape == (16, 24)
        assert sample.target["mask"].dtype == torch.uint8
        assert sample.image.is_contiguous()
        assert sample.name.startswith("images/")


def test_a_sample_depends_on_seed_epoch_and_index_only(source):
    keys = [(epoch, index) for epoch in range(2) for index in range(10)]
    first, again = windows(source), windows(source)
    samples = {key: first[key].image.numpy().tobytes() for key in keys}
    assert {key: again[key].image.numpy().tobytes() for key in reversed(keys)} == samples
    assert len(set(samples.values())) > 15  # small images have few places
    assert windows(source, seed=1)[(0, 0)].image.numpy().tobytes() != samples[0, 0]


@pytest.mark.parametrize("focus", [0.0, 0.3, 1.0])
def test_the_share_of_focus_windows(source, focus):
    dataset = windows(source, (4, 4), focus)
    hits = [bool((dataset[(0, index)].target["mask"] == 1).any()) for index in range(300)]
    chance = 0.03  # windows that meet the spot by accident
    assert np.mean(hits) == pytest.approx(focus, abs=0.08 + chance)
    assert focus < 1 or all(hits)


def test_images_come_alike_on_request(source):
    dataset = windows(source, (8, 8), focus=0, sampling="image")
    names = [dataset[(0, index)].name for index in range(600)]
    assert [names.count(source.name(index)) / 600 for index in range(4)] == pytest.approx([0.25] * 4, abs=0.06)


def test_images_come_by_their_area(source):
    dataset = windows(source, (8, 8), focus=0)
    names = [dataset[(0, index)].name for index in range(600)]
    areas = np.array([np.prod(source.size(index)) for index in range(4)])
    shares = [names.count(source.name(index)) / 600 for index in range(4)]
    np.testing.assert_allclose(shares, areas / areas.sum(), atol=0.07)


def test_small_images_are_mirrored_and_their_padding_ignored(folder, settings):
    image = noise(5, 7)
    save(folder / "images" / "a.png", image)
    save(folder / "masks" / "a.png", np.zeros((5, 7), np.uint8))
    sample = windows(settings().source("train"), (16, 24))[(0, 0)]
    expected = np.pad(image, ((0, 11), (0, 17), (0, 0)), mode="reflect")
    np.testing.assert_array_equal(sample.image.numpy().transpose(1, 2, 0), expected)
    mask = sample.target["mask"].numpy()
    assert (mask[:5, :7] == 0).all()
    assert (mask == IGNORE).sum() == 16 * 24 - 35


def test_resizing_shows_every_image_once_an_epoch(source):
    dataset = ResizeDataset(source, (16, 24), WindowSettings(), Augment([]), 0)
    orders = [[dataset[(epoch, index)].name for index in range(4)] for epoch in range(6)]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert len(set(map(tuple, orders))) > 1
    beyond = [dataset[(0, index)].name for index in range(4, 8)]
    assert sorted(beyond) == sorted(orders[0])


def test_resized_images_keep_their_aspect(source):
    dataset = ResizeDataset(source, (16, 24), WindowSettings(), Augment([]), 0)
    tall = next(s for s in (dataset[(0, i)] for i in range(4)) if s.name == "images/1.png")  # 90 x 50
    valid = tall.target["mask"] != IGNORE
    assert valid.any(dim=1).sum() == 16
    assert valid.any(dim=0).sum() == round(50 * 16 / 90)


def test_windows_in_epoch(small_set, settings):
    area = 60 * 80 + 90 * 50 + 40 * 40 + 30 * 20

    def count(**changes):
        made = settings(**changes)
        return windows_in_epoch(made.source("train"), (16, 24), made)

    assert count() == -(-area // (16 * 24))
    assert count(fit="resize") == 4
    assert count(windows_per_epoch=7) == count(windows_per_epoch=7, fit="resize") == 7


def test_augmentation_sees_the_full_window(source):
    seen = []

    class Spy(Augment):
        def __call__(self, arrays, seed):
            seen.append((arrays["image"].shape, arrays["mask"].shape, tuple(seed)))
            return super().__call__(arrays, seed)

    dataset = WindowDataset(source, (64, 64), WindowSettings(), Spy([]), 0)
    for index in range(8):
        dataset[(0, index)]
    assert {entry[:2] for entry in seen} == {((64, 64, 3), (64, 64))}
    assert len({entry[2] for entry in seen}) == 8
