"""Bands and types of files arrive in samples as they are stored."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from image_files import save

from hires.data import file_source
from hires.data.augment import Augment
from hires.data.loader import StepSampler, make_loader
from hires.data.pixels import PixelRules, to_channels
from hires.data.settings import WindowSettings
from hires.data.windows import ResizeDataset, WindowDataset
from hires.interfaces import DataError, Window
from hires.settings import SettingError
from tests.many_bands import RANGES, TYPES, make_set, pixels, save_tiff

WINDOW = Window(5, 7, 20, 30)
CUT = slice(5, 25), slice(7, 37)


@pytest.mark.parametrize("cache_gib", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
def test_all_bands_arrive_as_they_are_stored(folder, settings, dtype, cache_gib):
    images = make_set(folder, dtype, 5)
    source = settings(channels=5, cache_gib=cache_gib).source("train")
    assert source.dtype == dtype
    for index, image in enumerate(images):
        np.testing.assert_array_equal(source.read(index)[0], image)
        found, target = source.read(index, WINDOW)
        np.testing.assert_array_equal(found, image[CUT])
        assert found.dtype == dtype
        assert target["mask"].shape == (20, 30)


@pytest.mark.parametrize("bands", [(3, 2, 1), (1,), (5, 1), (2, 2, 4), (2, 4), (5, 4, 3, 2, 1)])
def test_named_bands_are_the_channels_in_their_order(folder, settings, bands):
    images = make_set(folder, "uint16", 5, count=1)
    source = settings(bands=bands).source("train")
    wanted = np.stack([images[0][..., band - 1] for band in bands], axis=2)
    np.testing.assert_array_equal(source.read(0)[0], wanted)
    np.testing.assert_array_equal(source.read(0, WINDOW)[0], wanted[CUT])
    assert source.channels == len(bands)


def test_headers_tell_of_alpha_where_bands_do_not_fit(folder, settings):
    (image,) = make_set(folder, "uint8", 4, count=1)
    save_tiff(folder / "images" / "0.tif", image, extrasamples=[0, 0, 2])
    settings(bands=(1, 2, 3, 4)).source("train").check_headers()
    words = (
        r"has 3 bands and alpha, but data.channels is 4; data.bands=\[1,2,3,4\] backbone.in_channels=4 takes alpha"
    )
    with pytest.raises(DataError, match=words):
        settings(channels=4).source("train").check_headers()
    settings(channels=4, on_error="skip").source("train").check_headers()  # passed over, one by one


@pytest.mark.parametrize("cache_gib", [0, 1])
def test_alpha_is_a_band_where_it_is_named(folder, settings, cache_gib, caplog):
    (image,) = make_set(folder, "uint8", 4, count=1)
    save_tiff(folder / "images" / "0.tif", image, extrasamples=[0, 0, 2])
    for bands in [(1, 2, 3), (1, 2, 3, 4), (4, 1)]:  # in one cache
        source = settings(bands=bands, cache_gib=cache_gib).source("train")
        wanted = image[..., [band - 1 for band in bands]]
        np.testing.assert_array_equal(source.read(0)[0], wanted)
        np.testing.assert_array_equal(source.read(0, WINDOW)[0], wanted[CUT])
    np.testing.assert_array_equal(settings(cache_gib=cache_gib).source("train").read(0)[0], image[..., :3])
    with pytest.raises(DataError, match=r"has 4 band\(s\), but data.bands wants band 5"):
        settings(bands=(1, 5)).source("train").read(0)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_any_bands(bands):
    image = pixels("int16", 6, 2, 3)
    wanted = image[..., [band - 1 for band in bands]]
    np.testing.assert_array_equal(PixelRules(bands=tuple(bands)).shown(image, "a"), wanted)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bands": (1, 6)}, r"1\.tif: has 5 band\(s\), but data.bands wants band 6"),
        ({}, r"has 5 bands, but data.channels is 3; .*data.channels=5 backbone.in_channels=5"),
        ({"channels": 1}, r"has 5 bands, but data.channels is 1"),
    ],
)
def test_files_with_other_bands_are_named(folder, settings, changes, words):
    make_set(folder, "uint16", 5, count=2)
    source = settings(**changes).source("train")
    with pytest.raises(DataError, match=words):
        source.read(1, WINDOW)


@pytest.mark.parametrize("dtype", TYPES)
def test_gray_and_colour_become_each_other(dtype):
    gray, colour = pixels(dtype, 1), pixels(dtype, 3)
    np.testing.assert_array_equal(to_channels(gray, 3), np.repeat(gray, 3, axis=2))
    luma = colour.astype(float) @ (0.299, 0.587, 0.114)
    found = to_channels(colour, 1)
    assert found.dtype == dtype
    np.testing.assert_allclose(found[..., 0], luma, atol=1.0 if dtype != "float32" else 1e-4)


def test_images_of_two_types_are_refused(folder, settings):
    make_set(folder, "uint16", 3, count=2)
    save_tiff(folder / "images" / "1.tif", pixels("uint8", 3, 61, 70))
    source = settings().source("train")
    source.read(0)
    with pytest.raises(DataError, match=r"1\.tif: has uint8 pixels, but .*0\.tif has uint16"):
        source.read(1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_pixels_that_are_no_numbers(folder, settings, bad):
    (image,) = make_set(folder, "float32", 3, count=1)
    image[50, 60, 1] = bad
    save_tiff(folder / "images" / "0.tif", image)
    with pytest.raises(DataError, match=r"0\.tif: has NaN or infinite pixels; .*data.nodata"):
        settings().source("train").read(0)
    np.testing.assert_array_equal(settings().source("train").read(0, WINDOW)[0], image[CUT])
    image[50, 60, 1] = -7
    for cache_gib in (0, 1):
        filled = settings(nodata=-7, cache_gib=cache_gib).source("train")
        np.testing.assert_array_equal(filled.read(0)[0], image)


@pytest.mark.parametrize("make", [WindowDataset, ResizeDataset])
@pytest.mark.parametrize("dtype", TYPES)
def test_samples_are_of_the_type_of_their_files(folder, settings, dtype, make):
    """Also where windows are scaled, padded and put together."""
    make_set(folder, dtype, 5)
    source = settings(channels=5).source("train")
    more = {"scale": (0.5, 2.0), "mosaic": 0.5} if make is WindowDataset else {}
    dataset = make(source, (96, 64), WindowSettings(), Augment(), 0, **more)
    samples = [dataset[0, index].image for index in range(8)]
    assert {sample.dtype for sample in samples} == {getattr(torch, dtype)}
    low, high = RANGES[dtype]
    batch = torch.stack(samples).to(memory_format=torch.channels_last).float()
    assert batch.shape == (8, 5, 96, 64)
    assert batch.min() >= 2 * low - high
    assert batch.max() <= 2 * high - low
    assert batch.std() > (high - low) / 8


@pytest.mark.parametrize("dtype", TYPES)
def test_workers_and_ranks_change_nothing(folder, settings, dtype):
    make_set(folder, dtype, 5)
    source = settings(channels=5, cache_gib=1).source("train")
    dataset = WindowDataset(source, (32, 24), WindowSettings(sampling="image"), Augment(), 0)

    def images(workers, rank=0, ranks=1):
        steps = StepSampler(12, 4, 0, 3, rank, ranks)
        return [[s.image for s in step] for step in make_loader(dataset, steps, workers, pin_memory=False)]

    alone = images(0)
    for found in (images(1), images(2)):
        assert all(torch.equal(a, b) for x, y in zip(found, alone, strict=True) for a, b in zip(x, y, strict=True))
    for rank in range(2):
        for found, step in zip(images(1, rank, 2), alone, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(found, step[rank::2], strict=True))


def test_windows_of_large_files_are_read_alone(folder, settings, monkeypatch):
    images = make_set(folder, "uint16", 3, tile=(16, 16))
    monkeypatch.setattr(file_source, "LARGE", 1000)
    kept = settings(cache_gib=1)
    source = kept.source("train")
    for index, image in enumerate(images):
        np.testing.assert_array_equal(source.read(index, WINDOW)[0], image[CUT])
    of_images = [path for path in kept.cache().folder.glob("*.npy") if np.load(path).ndim == 3]
    assert not of_images


def test_windows_are_read_alone_where_the_cache_is_full(folder, settings, monkeypatch):
    images = make_set(folder, "uint16", 3, tile=(16, 16))
    calls = []
    read = file_source.read_image
    monkeypatch.setattr(file_source, "read_image", lambda *args: calls.append(args) or read(*args))
    source = settings(cache_gib=1e-9).source("train")
    np.testing.assert_array_equal(source.read(0, WINDOW)[0], images[0][CUT])
    assert [window for _, window in calls] == [WINDOW]


def test_a_limit_on_pixels(folder, settings):
    save(folder / "images" / "0.png", np.zeros((40, 50), np.uint8))
    save(folder / "masks" / "0.png", np.zeros((40, 50), np.uint8))
    source = settings(max_pixels=1999).source("train")
    with pytest.raises(DataError, match=r"0\.png: .*data.max_pixels=1999"):
        source.read(0)
    assert settings(max_pixels=2000).source("train").read(0)[0].shape == (40, 50, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bands": []}, "bands: "),
        ({"bands": [0]}, "bands: "),
        ({"channels": 0}, "channels: "),
        ({"normalize": "window"}, "level: got null, allowed: a number, which data.normalize=window needs"),
        ({"normalize": "window", "level": 0, "width": 0}, "width: "),
        ({"level": 3}, "level: .*normalize=window"),
        ({"percentiles": [9, 9]}, "percentiles: "),
        ({"percentiles": [-1, 9]}, "percentiles: "),
    ],
)
def test_settings_that_cannot_be_meant_so(settings, changes, words):
    with pytest.raises(SettingError, match=words):
        settings(**changes)
