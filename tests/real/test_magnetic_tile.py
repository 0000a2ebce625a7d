"""Tiles whose class is their folder and whose masks are soft."""

import logging
import os
import re
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from hires.data.mask_folder import MaskFolder

ROOT = Path(__file__).parents[2] / ".." / "shared" / "data" / "magnetic_tile"
DEFECTS = ("Blowhole", "Break", "Crack", "Fray", "Uneven")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not ROOT.is_dir() and "CI" not in os.environ, reason="../shared/data/magnetic_tile is not here"
    ),
]


def settings(cache_dir, **changes):
    usual = {
        "root": str(ROOT),
        "images": "*/Imgs/*.jpg",
        "masks": "*/Imgs/*.png",
        "classes": {"sound": 0, **{name.lower(): f"MT_{name}/255" for name in DEFECTS}},
        "threshold": 127,
        "splits": {},
        "cache_dir": str(cache_dir),
    }
    return MaskFolder(**{**usual, **changes})


def test_classes_by_folder_and_the_masks_that_lack_theirs(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        source = settings(tmp_path).source("train")
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert "4 mask(s) hold no pixel" in message
    assert len(re.findall(r"MT_Uneven/Imgs/[^,]*\.png", message)) == 4
    for index in range(len(source)):
        found = set(np.unique(source.mask(index))) - {0}
        name = source.name(index).split("/")[0].removeprefix("MT_")
        assert found <= ({DEFECTS.index(name) + 1} if name in DEFECTS else set())


def test_the_experiment_keeps_exposures_of_a_tile_together(tmp_path):
    """exp3_num_85897 and exp5_num_86031 show one tile (seen by eye)."""
    own = OmegaConf.load(Path(__file__).parents[2] / "configs/experiment/magnetic_tile.yaml").data
    homes = {}
    for fold in range(own.folds):
        source = settings(tmp_path, fold=fold, folds=own.folds, groups=own.groups).source("val")
        names = [source.name(index) for index in range(len(source))]
        assert {name.split("/")[0] for name in names} >= {f"MT_{defect}" for defect in DEFECTS}
        homes |= {Path(name).stem: fold for name in names}
    assert len(homes) == 120
    assert homes["exp3_num_85897"] == homes["exp5_num_86031"]


def test_folds_hold_every_class(tmp_path):
    held = []
    for fold in range(4):
        source = settings(tmp_path, fold=fold, folds=4, groups=r"num_\d+").source("val")
        names = [source.name(index) for index in range(len(source))]
        assert [sum(name.startswith(f"MT_{defect}") for name in names) for defect in (*DEFECTS, "Free")] == [5] * 6
        held += names
    assert len(held) == len(set(held)) == 120
