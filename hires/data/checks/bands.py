"""Images in bands of rows, so that one of any size is read in little memory where its format allows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hires.data.images import ImageInfo, read_image
from hires.interfaces import Window

_BAND_BYTES = 2**25  # of what is looked at together
_BLOCK_BYTES = 2**28  # of what is read together; segments that are larger are decoded several times instead
_COPIES = 3  # of a band, while it is looked at
_OTHERWISE = 2**26  # bytes of thumbnails, histograms, decoders


def decoded_bytes(info: ImageInfo) -> int:
    """What the pixels of an image occupy, with alpha."""
    return info.size[0] * _row_bytes(info)


def block_bytes(info: ImageInfo) -> int:
    """What the rows of an image occupy that are read together."""
    return min(info.size[0], _block_rows(info)) * _row_bytes(info)


def reading_bytes(info: ImageInfo) -> int:
    """What reading an image occupies, about; one that is not read by windows is decoded beside its file."""
    at_once = block_bytes(info) if info.windowed else 2 * decoded_bytes(info)
    band = min(decoded_bytes(info), max(_BAND_BYTES, _row_bytes(info)))
    return at_once + _COPIES * band + (_OTHERWISE if info.windowed else 0)


def _row_bytes(info: ImageInfo) -> int:
    return info.size[1] * (info.bands + info.alpha) * info.dtype.itemsize


def _rows(info: ImageInfo, most: int) -> int:
    """How many rows take that many bytes."""
    return max(1, most // max(1, _row_bytes(info)))


def _block_rows(info: ImageInfo) -> int:
    """How many rows are read together: whole segments, so that none is decoded twice, if they are not too many."""
    rows = -(-_rows(info, _BAND_BYTES) // info.rows) * info.rows
    return min(rows, _rows(info, _BLOCK_BYTES))


def image_bands(path: Path, info: ImageInfo) -> Iterator[np.ndarray]:
    """The pixels (rows, W, C) of an image from top to bottom, those of alpha as the last ones."""
    (height, width), alpha = info.size, info.alpha > 0
    rows, step = _rows(info, _BAND_BYTES), _block_rows(info) if info.windowed else height
    for top in range(0, height, step):
        block = read_image(path, Window(top, 0, min(step, height - top), width), alpha=alpha)
        yield from (block[start : start + rows] for start in range(0, len(block), rows))
