"""Aerial masks by their colours: half of the files are palettes, each in an order of its own."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest

from hires.data.focus import class_pixels
from hires.data.mask_folder import MaskFolder
from hires.interfaces import IGNORE, DataError

ROOT = Path(__file__).parents[2] / ".." / "shared" / "data" / "dubai_aerial"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data/dubai_aerial is not here"
    ),
]
COLOURS = {
    "building": "#3C1098",
    "land": [[132, 41, 246]],
    "road": "#6EC1E4",
    "vegetation": "#FEDD3A",
    "water": "#E2A929",
    "unlabeled": "#9B9B9B",
}


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


def settings(cache_dir, **changes):
    usual = {"images": "*/images/*.jpg", "masks": "*/masks/*.png", "classes": COLOURS, "splits": {}}
    return MaskFolder(**{"root": str(ROOT), "cache_dir": cache_dir, **usual, **changes})


def test_every_mask_but_those_with_another_colour(cache_dir):
    source = settings(cache_dir).source("train")
    assert len(source) == 36
    refused = {}
    for index in range(len(source)):
        try:
            assert source.mask(index).max() < 6
        except DataError as error:
            refused[source.name(index)] = str(error)
    assert list(refused) == [f"Tile 8/images/image_part_00{n}.jpg" for n in (2, 3)]
    for (name, text), count in zip(refused.items(), (886, 545_723), strict=True):
        assert name.replace("images", "masks").replace("jpg", "png") in text
        assert f"#000000 (0, 0, 0) ({count} px) are in no class" in text


def test_shares_of_the_classes(cache_dir):
    source = settings(cache_dir, unlisted="ignore").source("train")
    total = sum(source.mask(index).size for index in range(len(source)))
    pixels = class_pixels(source)
    shares = dict(zip(source.classes, pixels / total, strict=True))
    assert shares == pytest.approx(
        {"building": 0.221, "land": 0.448, "road": 0.121, "vegetation": 0.117, "water": 0.075, "unlabeled": 0.007},
        abs=0.0006,
    )
    assert (total - pixels.sum()) / total == pytest.approx(0.012, abs=0.0006)


def test_palette_indices_as_classes_are_warned_of(cache_dir, caplog):
    values = {
        "classes": {str(n): n for n in range(6)},
        "images": "Tile [24]/images/*",
        "masks": "Tile [24]/masks/*",
    }
    with caplog.at_level(logging.WARNING):
        settings(cache_dir, **values).source("train")
    assert len(caplog.records) == 1
    assert "masks have different palettes" in caplog.text


def test_ignored_colours(cache_dir):
    classes = {name: colour for name, colour in COLOURS.items() if name != "unlabeled"}
    made = settings(
        cache_dir,
        classes=classes,
        ignore_values=["#9B9B9B", "#000000"],
        images="Tile 8/images/*.jpg",
        masks="Tile 8/masks/*.png",
    )
    mask = made.source("train").mask(2)
    assert np.count_nonzero(mask == IGNORE) >= 545_723
