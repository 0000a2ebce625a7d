"""NumPy's .npy files: (H, W) or (H, W, bands), read by windows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hires.data.formats.image_file import check_sides, naming
from hires.data.formats.picture import Picture, part
from hires.data.formats.sample_types import as_native, native
from hires.interfaces import DataError, Window


@contextmanager
def open_npy(path: Path, values: bool) -> Iterator[Picture]:
    """Arrays of two or three dimensions; pickled objects are refused."""
    with naming(path):
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    if stored.ndim not in (2, 3):
        raise DataError(f"{path}: an array of shape {stored.shape} is no image; save it as (height, width, bands)")
    height, width = stored.shape[:2]
    bands = stored.shape[2] if stored.ndim == 3 else 1
    check_sides(path, height, width)
    raw = np.dtype(np.uint8) if stored.dtype == np.bool_ else stored.dtype.newbyteorder("=")
    dtype = raw if values else native(path, stored.dtype)

    def pixels(window: Window) -> np.ndarray:
        array = part(stored, window)
        return array.astype(raw) if values else as_native(path, array.astype(stored.dtype.newbyteorder("=")))

    yield Picture("NPY", (height, width), dtype, bands, pixels, windowed=True)
