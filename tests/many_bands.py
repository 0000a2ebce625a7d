"""Image files and data sets of other types than 8-bit colour."""

from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

TYPES = ("uint8", "uint16", "int16", "float32")
RANGES = {"uint8": (0, 255), "uint16": (200, 4000), "int16": (-1000, 1500), "float32": (-0.5, 9.0)}


def pixels(dtype: str, bands: int, height: int = 40, width: int = 50, seed: int = 0) -> np.ndarray:
    """(H, W, bands) of random values within the type's range here."""
    low, high = RANGES[dtype]
    return np.random.default_rng(seed).uniform(low, high, (height, width, bands)).astype(dtype)


def save_tiff(path: Path, image: np.ndarray, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(path, image, photometric="minisblack", planarconfig="contig", **options)
    return path


def make_set(folder: Path, dtype: str, bands: int, count: int = 4, **options: object) -> list[np.ndarray]:
    """Images of a type with masks of a square each, below `folder`; returns the images."""
    images = [pixels(dtype, bands, 60 + index, 70, seed=index) for index in range(count)]
    for index, image in enumerate(images):
        mask = np.zeros(image.shape[:2], np.uint8)
        mask[10:30, 10:30] = 255
        save_tiff(folder / "images" / f"{index}.tif", image, **options)
        (folder / "masks").mkdir(exist_ok=True)
        Image.fromarray(mask).save(folder / "masks" / f"{index}.png")
    return images
