"""Writes small image files for tests."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def save(path: Path, array: np.ndarray, **options: Any) -> Path:
    """Writes an array as an image file; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)
    return path


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def touch(root: Path, *paths: str) -> None:
    """Makes empty files, with their folders."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
