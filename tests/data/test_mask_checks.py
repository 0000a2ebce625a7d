"""Palettes that contradict each other are told, once, and only where it matters."""

import logging

import numpy as np
import pytest
from image_files import noise, save
from PIL import Image

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.fixture
def warnings(folder, settings, caplog):
    """Writes a mask of indices 0 and 1 for each palette; returns what making the source says."""

    def run(*palettes, **changes):
        for number, palette in enumerate(palettes):
            mask = Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4) % 2)
            if palette:
                mask.putpalette(sum(palette, ()))
            save(folder / "images" / f"{number}.png", noise(4, 4))
            (folder / "masks").mkdir(exist_ok=True)
            mask.save(folder / "masks" / f"{number}.png")
        with caplog.at_level(logging.WARNING):
            settings(**{"classes": {"a": 0, "b": 1}, **changes}).source("train")
        return [record.getMessage() for record in caplog.records]

    return run


@pytest.mark.parametrize("cache_gib", [0, 1])
def test_an_index_with_two_colours_is_told_once(warnings, cache_gib):
    told = warnings((RED, GREEN), (RED, GREEN), (GREEN, RED), (BLUE, RED), cache_gib=cache_gib)
    assert len(told) == 1
    assert "0 is #FF0000 (255, 0, 0) in masks/0.png and #00FF00 (0, 255, 0) in masks/2.png" in told[0]
    assert "list colours in data.classes" in told[0]


def test_equal_palettes_are_fine(warnings):
    assert not warnings((RED, GREEN), (RED, GREEN))


def test_what_no_pixel_uses_does_not_matter(warnings):
    assert not warnings((RED, GREEN, BLUE), (RED, GREEN, RED))


def test_gray_masks_have_no_palette(warnings):
    assert not warnings((GREEN, RED), None)


def test_tables_of_colours_do_not_care(warnings):
    assert not warnings((RED, GREEN), (GREEN, RED), classes={"a": "#FF0000", "b": "#00FF00"})


def test_broken_files_are_told_when_they_are_read(warnings, folder, settings):
    assert not warnings((RED, GREEN), (RED, GREEN))
    (folder / "masks" / "0.png").write_bytes(b"")
    assert len(settings().source("train")) == 2


def test_a_mistyped_folder_is_told(warnings):
    told = warnings(None, classes={"a": 0, "b": "nofolder/1"}, unlisted="ignore")
    assert [line for line in told if "no mask lies below nofolder, which data.classes names" in line]
