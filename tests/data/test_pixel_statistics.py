"""Statistics are those of the training pixels, in bounded memory and always the same."""

import tracemalloc

import numpy as np
import pytest

from hires.data import file_source, pixel_statistics
from hires.data.pixel_statistics import assumed, check_type, normalization_of, pixel_type
from hires.interfaces import DataError
from tests.many_bands import make_set, pixels, save_tiff


def stacked(images):
    return np.concatenate([image.reshape(-1, image.shape[2]) for image in images]).astype(np.float64)


def test_statistics_are_those_of_all_pixels(folder, settings):
    images = make_set(folder, "int16", 5)
    all_pixels = stacked(images)
    made = settings(channels=5, percentiles=[2, 90])
    found = pixel_statistics.pixel_statistics(made.source("train"), made)
    np.testing.assert_array_equal(found.minimum, all_pixels.min(0))
    np.testing.assert_array_equal(found.maximum, all_pixels.max(0))
    np.testing.assert_allclose(found.mean, all_pixels.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.std, all_pixels.std(0), rtol=1e-12)
    np.testing.assert_allclose(np.stack([found.low, found.high]), np.percentile(all_pixels, [2, 90], axis=0))


def test_fewer_pixels_say_nearly_the_same(folder, settings):
    images = make_set(folder, "uint16", 3)
    made = settings(statistics_pixels=400)
    source = made.source("train")
    assert all(len(source.some_pixels(index, 400)) <= 400 for index in range(4))
    found = pixel_statistics.pixel_statistics(source, made)
    spread = stacked(images).std(0)
    np.testing.assert_allclose(found.mean, stacked(images).mean(0), atol=0.15 * spread.max())
    np.testing.assert_allclose(found.std, spread, rtol=0.1)


def test_large_files_are_looked_at_in_places_all_over(folder, settings, monkeypatch):
    images = make_set(folder, "uint16", 3, tile=(16, 16))
    made = settings(statistics_pixels=1600)
    whole = pixel_statistics.pixel_statistics(made.source("train"), made)
    monkeypatch.setattr(file_source, "LARGE", 1000)
    source = made.source("train")
    assert 200 < len(source.some_pixels(0, 1600)) <= 1600
    found = pixel_statistics.pixel_statistics(source, made)
    np.testing.assert_allclose(found.mean, whole.mean, atol=0.15 * stacked(images).std(0).max())


@pytest.mark.parametrize("most", [1, 3, 50])
@pytest.mark.parametrize("size", [(1, 400), (400, 1), (1, 1), (3, 90)])
def test_thin_images_have_pixels_too(folder, settings, size, most):
    save_tiff(folder / "images" / "0.tif", pixels("uint16", 3, *size))
    make_set(folder, "uint16", 3)
    save_tiff(folder / "images" / "0.tif", pixels("uint16", 3, *size))
    assert len(settings().source("train").some_pixels(0, most)) >= 1


@pytest.mark.parametrize(
    ("dtype", "given", "method"),
    [
        ("uint8", None, "dtype"),
        ("uint16", None, "percentile"),
        ("int16", None, "percentile"),
        ("float32", None, "percentile"),
        ("uint16", "dtype", "dtype"),
        ("uint8", "minmax", "minmax"),
        ("float32", "mean_std", "mean_std"),
    ],
)
def test_the_method_follows_the_type_unless_it_is_given(folder, settings, dtype, given, method, caplog):
    images = make_set(folder, dtype, 3)
    made = settings(normalize=given)
    with caplog.at_level("INFO"):
        found = normalization_of(made, made.source("train"))
    assert (found.method, found.dtype) == (method, dtype)
    all_pixels = stacked(images)
    if method == "percentile":
        np.testing.assert_allclose([found.low, found.high], np.percentile(all_pixels, [1, 99], axis=0), rtol=1e-6)
        assert "normalised by percentiles" in caplog.text
    if method in ("minmax", "mean_std"):
        np.testing.assert_allclose([found.low, found.high], [all_pixels.min(0), all_pixels.max(0)])
    if method == "mean_std":
        np.testing.assert_allclose([found.mean, found.std], [all_pixels.mean(0), all_pixels.std(0)], rtol=1e-6)


def test_a_window_level_needs_no_images(settings):
    found = assumed(settings(normalize="window", level=40, width=400, channels=1), np.dtype(np.int16))
    assert (found.low, found.high, found.clips) == ((-160.0,), (240.0,), True)


def test_pixels_without_data_do_not_count(folder, settings):
    images = make_set(folder, "float32", 3, count=2)
    for index, image in enumerate(images):
        image[:20] = -9999
        image[21, 3] = np.nan
        save_tiff(folder / "images" / f"{index}.tif", image)
    made = settings(normalize="minmax", nodata=-9999)
    found = normalization_of(made, made.source("train"))
    assert min(found.low) >= -0.5
    assert max(found.high) <= 9
    nothing = settings(normalize="minmax", nodata=-9999)
    for index, image in enumerate(images):
        save_tiff(folder / "images" / f"{index}.tif", np.full_like(image, -9999))
    with pytest.raises(Exception, match="data.nodata"):
        normalization_of(nothing, nothing.source("train"))


@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_a_channel_without_data_says_nothing_of_the_others(folder, settings, dtype):
    images = make_set(folder, dtype, 3, count=2)
    for index, image in enumerate(images):
        image[:25, :, 1] = 60_000
        save_tiff(folder / "images" / f"{index}.tif", image)
    made = settings(nodata=60_000)
    found = pixel_statistics.pixel_statistics(made.source("train"), made)
    channels = [stacked(images)[:, channel] for channel in range(3)]
    channels = [values[values != 60_000] for values in channels]
    assert len(channels[1]) < len(channels[0])
    np.testing.assert_array_equal(found.maximum, [values.max() for values in channels])
    np.testing.assert_allclose(found.mean, [values.mean() for values in channels], rtol=1e-12)
    np.testing.assert_allclose(found.std, [values.std() for values in channels], rtol=1e-12)
    np.testing.assert_allclose(found.high, [np.percentile(values, 99) for values in channels])


@pytest.mark.parametrize("normalize", ["percentile", "minmax", "mean_std"])
def test_images_of_one_value_divide_by_nothing(folder, settings, normalize):
    for index, image in enumerate(make_set(folder, "uint16", 3, count=2)):
        save_tiff(folder / "images" / f"{index}.tif", np.full_like(image, 77))
    made = settings(normalize=normalize)
    found = normalization_of(made, made.source("train"))
    assert found.low == (77.0,) * 3
    assert found.high == (78.0,) * 3
    assert not found.std or found.std == (1.0,) * 3


def test_a_few_bright_pixels_do_not_collapse_the_percentiles(folder, settings):
    (image,) = make_set(folder, "uint16", 3, count=1)
    image[:] = 5
    image[0, 0] = 900
    save_tiff(folder / "images" / "0.tif", image)
    made = settings()
    found = normalization_of(made, made.source("train"))
    assert (found.low, found.high) == ((5.0,) * 3, (900.0,) * 3)


def test_broken_images_stop_or_are_left_out(folder, settings):
    images = make_set(folder, "uint16", 3)
    path = folder / "images" / "1.tif"
    path.write_bytes(path.read_bytes()[:-2000])
    made = settings(normalize="minmax")
    with pytest.raises(DataError, match=r"1\.tif"):
        normalization_of(made, made.source("train"))
    made = settings(normalize="minmax", on_error="skip")
    found = normalization_of(made, made.source("train"))
    rest = stacked([images[index] for index in (0, 2, 3)])
    np.testing.assert_array_equal([found.low, found.high], [rest.min(0), rest.max(0)])


def test_memory_does_not_grow_with_the_number_of_images(settings, monkeypatch):
    monkeypatch.setattr(pixel_statistics, "_VALUES", 2**15)

    class Many:
        def __init__(self, count):
            self.count = count

        def __len__(self):
            return self.count

        def some_pixels(self, index, most):
            return np.full((2000, 3), index, np.float32)

    def peak(count):
        tracemalloc.start()
        pixel_statistics.pixel_statistics(Many(count), settings())
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(500) < 1.5 * peak(20)


def test_images_of_another_type_than_those_learnt_from(folder, settings):
    make_set(folder, "uint16", 3)
    source = settings().source("train")
    assert pixel_type(source) == np.uint16
    check_type(source, assumed(settings(), np.dtype(np.uint16)))
    with pytest.raises(DataError, match=r"0\.tif: has uint16 pixels, but the run learns from uint8 ones"):
        check_type(source, assumed(settings(), np.dtype(np.uint8)))
