"""Images in bands of rows, so that one of any size is read in little memory where its format allows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hires.data.images import ImageInfo, read_image
from hires.interfaces import Window

_BAND_BYTES = 2**25
_MOST_BYTES = 2**27  # of a band of _STEP rows of a wide image; what needs more is decoded several times instead
_STEP = 256  # rows: a divisor or multiple of the usual tiles, none of which is then decoded twice
_COPIES = 3  # of a band, while it is looked at
_OTHERWISE = 2**26  # bytes of thumbnails, histograms, decoders


def decoded_bytes(info: ImageInfo) -> int:
    """What the pixels of an image occupy, with alpha."""
    return info.size[0] * _row_bytes(info)


def band_bytes(info: ImageInfo) -> int:
    """What a band of an image occupies."""
    return min(info.size[0], _rows(info)) * _row_bytes(info)


def reading_bytes(info: ImageInfo) -> int:
    """What reading an image occupies, about: its bands, and all of it where no window is decoded alone."""
    whole = 0 if info.windowed else 2 * decoded_bytes(info)
    return whole + _COPIES * band_bytes(info) + (_OTHERWISE if info.windowed else 0)


def _row_bytes(info: ImageInfo) -> int:
    return info.size[1] * (info.bands + info.alpha) * info.dtype.itemsize


def _rows(info: ImageInfo) -> int:
    """How many rows a band has."""
    row, step = max(1, _row_bytes(info)), _STEP
    while step > 1 and step * row > _MOST_BYTES:
        step //= 2
    return max(step, _BAND_BYTES // row // _STEP * _STEP)


def image_bands(path: Path, info: ImageInfo) -> Iterator[np.ndarray]:
    """The pixels (rows, W, C) of an image from top to bottom, those of alpha as the last ones."""
    (height, width), rows, alpha = info.size, _rows(info), info.alpha > 0
    if not info.windowed or rows >= height:
        whole = read_image(path, alpha=alpha)
        yield from (whole[top : top + rows] for top in range(0, len(whole), rows))
        return
    for top in range(0, height, rows):
        yield read_image(path, Window(top, 0, min(rows, height - top), width), alpha=alpha)
