"""Small data sets made on the spot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_files import noise, save

from hires.data.mask_folder import MaskFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "set"


@pytest.fixture
def settings(folder: Path, tmp_path: Path) -> Callable[..., MaskFolder]:
    """MaskFolder settings of the set in `folder`, with changes; its cache is off unless asked for."""

    def make(**changes: Any) -> MaskFolder:
        usual = {
            "root": str(folder),
            "images": "images/*",
            "masks": "masks/*.png",
            "classes": {"background": 0, "thing": 255},
            "splits": {},
            "cache_gib": 0,
            "cache_dir": str(tmp_path / "cache"),
        }
        return MaskFolder(**{**usual, **changes})

    return make


@pytest.fixture
def small_set(folder: Path) -> Path:
    """Four images of different sizes; masks 0 with a spot of 255 in the first two."""
    for number, (height, width) in enumerate([(60, 80), (90, 50), (40, 40), (30, 20)]):
        mask = np.zeros((height, width), np.uint8)
        if number < 2:
            mask[20:23, 30:32] = 255
        save(folder / "images" / f"{number}.png", noise(height, width, seed=number))
        save(folder / "masks" / f"{number}.png", mask)
    return folder
