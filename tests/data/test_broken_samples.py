"""Broken files: named and an end, or passed over in the same way every time."""

import logging

import numpy as np
import pytest
import tifffile
import torch
from image_files import noise, save

from hires.data.augment import Augment
from hires.data.loader import StepSampler, make_loader
from hires.data.settings import WindowSettings
from hires.data.windows import ResizeDataset, WindowDataset
from hires.interfaces import DataError, Window
from tests.many_bands import make_set

STEPS = StepSampler(40, 4, 0, 10)


@pytest.fixture
def damaged(folder):
    """Eight images, of which the second and the fifth are cut short behind their headers."""
    for number in range(8):
        save(folder / "images" / f"{number}.png", noise(40, 50, seed=number))
        save(folder / "masks" / f"{number}.png", np.full((40, 50), 255 * (number % 2), np.uint8))
    for number in (1, 4):
        path = folder / "images" / f"{number}.png"
        path.write_bytes(path.read_bytes()[:1000])
    return folder


def dataset(settings, kind=WindowDataset, focus=0.5, **changes):
    made = settings(**{"on_error": "skip", **changes})
    return kind(made.source("train"), (16, 16), WindowSettings(focus=focus), Augment(), 3)


def runs(data, workers=0):
    return [sample for step in make_loader(data, STEPS, workers, pin_memory=False) for sample in step]


def test_without_skipping_a_broken_file_is_named(damaged, settings):
    data = WindowDataset(settings().source("train"), (16, 16), WindowSettings(focus=0), Augment(), 3)
    with pytest.raises(DataError, match=r"images/[14]\.png: [^\n]*$"):
        runs(data)


@pytest.mark.parametrize("kind", [WindowDataset, ResizeDataset])
def test_others_stand_in_the_same_ones_whatever_the_workers(damaged, settings, kind, caplog):
    once = runs(dataset(settings, kind))
    whole = {f"images/{number}.png" for number in range(8) if number not in (1, 4)}
    assert {sample.name for sample in once} <= whole
    assert len({sample.name for sample in once}) >= 5
    assert all(sample.image.shape == (3, 16, 16) for sample in once)
    assert 2 < sum(bool(sample.skipped) for sample in once) < 25
    for workers in (0, 2):
        again = runs(dataset(settings, kind), workers)
        assert [sample.name for sample in again] == [sample.name for sample in once]
        assert all(torch.equal(a.image, b.image) for a, b in zip(again, once, strict=True))


def test_whole_samples_are_what_they_are_without_broken_ones(damaged, settings):
    skipping = dataset(settings)
    plain = WindowDataset(settings().source("train"), (16, 16), WindowSettings(), Augment(), 3)
    for index in range(20):
        sample = skipping[0, index]
        if not sample.skipped:
            assert torch.equal(sample.image, plain[0, index].image)


def test_every_broken_file_is_told_once_and_all_at_the_end(damaged, settings, caplog):
    with caplog.at_level(logging.WARNING):
        runs(dataset(settings), workers=1)
    lines = [record.getMessage() for record in caplog.records]
    for number in (1, 4):
        assert sum(f"images/{number}.png" in line and "broken file number" in line for line in lines) == 1
    assert "of 2 broken file(s)" in lines[-1]


def test_more_than_half_are_too_many(damaged, settings):
    for number in (0, 2, 3):
        path = damaged / "images" / f"{number}.png"
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="5 of 8 images are broken, more than half"):
        runs(dataset(settings))


def test_nothing_but_broken_files_is_an_end(damaged, settings):
    for path in (damaged / "images").iterdir():
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="100 broken samples in a row"):
        dataset(settings)[0, 0]


def test_images_without_a_header_are_left_out_from_the_start(damaged, settings, caplog):
    (damaged / "images" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"1\.png"):
        dataset(settings, on_error="error")
    source = settings(on_error="skip").source("train")
    assert len(source) == 7
    assert "1.png: the file is empty" in caplog.text
    for number in (0, 2, 3, 5):
        (damaged / "images" / f"{number}.png").write_bytes(b"")
    with pytest.raises(DataError, match="only 3 can be read"):
        settings(on_error="skip").source("train")


def test_a_broken_mask_is_passed_over_too(damaged, settings):
    (damaged / "masks" / "3.png").write_bytes(b"rubbish")
    with pytest.raises(DataError, match=r"masks/3\.png"):
        dataset(settings, on_error="error", focus=1.0)
    names = {sample.name for sample in runs(dataset(settings, focus=1.0))}
    assert names == {"images/5.png", "images/7.png"}


def test_the_cache_does_not_decide_which_windows_count(folder, settings):
    """A TIFF with one bad strip: windows beside it are used, whether or not all of it was to be kept."""
    (image,) = make_set(folder, "uint8", 3, count=1, rowsperstrip=16, compression="deflate")
    path = folder / "images" / "0.tif"
    with tifffile.TiffFile(path) as file:
        start = file.pages.first.dataoffsets[3]
    data = bytearray(path.read_bytes())
    data[start : start + 4] = b"\xff" * 4
    path.write_bytes(data)
    for cache_gib in (0, 1):
        source = settings(cache_gib=cache_gib, on_error="skip").source("train")
        for _ in range(2):
            np.testing.assert_array_equal(source.read(0, Window(0, 5, 40, 30))[0], image[:40, 5:35])
            for window in (Window(40, 0, 16, 16), None):
                with pytest.raises(DataError, match=r"0\.tif: cannot be decoded"):
                    source.read(0, window)
