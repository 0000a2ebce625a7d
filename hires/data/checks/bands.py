"""Images in bands of rows, so that one of any size is read in little memory where its format allows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hires.data.images import ImageInfo, read_image
from hires.interfaces import Window

_BAND_BYTES = 2**25
_STEP = 256  # rows: a divisor or multiple of the usual tiles, none of which is then decoded twice


def decoded_bytes(info: ImageInfo) -> int:
    """What the pixels of an image occupy."""
    return info.size[0] * row_bytes(info)


def row_bytes(info: ImageInfo) -> int:
    return info.size[1] * info.bands * info.dtype.itemsize


def image_bands(path: Path, info: ImageInfo) -> Iterator[np.ndarray]:
    """The pixels (rows, W, C) of an image from top to bottom; all at once unless windows are read alone."""
    height, width = info.size
    rows = max(_STEP, _BAND_BYTES // max(1, row_bytes(info)) // _STEP * _STEP)
    if not info.windowed or rows >= height:
        yield read_image(path)
        return
    for top in range(0, height, rows):
        yield read_image(path, Window(top, 0, min(rows, height - top), width))
