"""Reads masks by their colours, and says where palettes contradict each other."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hires.data.formats.image_file import naming
from hires.data.formats.pillow_files import opened
from hires.data.images import mask_bands, rgb_bands
from hires.interfaces import DataError, Window

_BAND = 128  # rows


def colour_bands(path: str | Path, rows: int, window: Window | None = None) -> Iterator[np.ndarray]:
    """The colours 0xRRGGBB of a mask file, or a window of it, in bands of at most `rows` rows: (rows, W) uint32.

    A palette is resolved, gray is (g, g, g), alpha is dropped. Raises DataError for files that are missing,
    broken or not 8-bit.
    """
    return map(_packed, rgb_bands(path, rows, window))


def palette_header(path: str | Path) -> bytes | None:
    """The colours of a file's palette, RGB one after the other, without decoding; None for files without one.

    Of files that are broken it says nothing: that is told when they are read.
    """
    try:
        with naming(path), opened(path, path) as file:
            if file.mode != "P" or file.palette is None:
                return None
            order, colours = file.palette.getdata()
    except DataError:
        return None  # maybe of a kind that has no palettes
    values = np.frombuffer(colours, np.uint8)
    if order == "RGB;L":  # all reds, all greens, all blues
        return values[: len(values) // 3 * 3].reshape(3, -1).T.tobytes()
    entries = values[: len(values) // len(order) * len(order)].reshape(-1, len(order))
    return entries[:, [order.index(colour) for colour in "RGB"]].tobytes()


def used_colours(path: Path) -> np.ndarray:
    """The palette indices that occur in a file and their colours 0xRRGGBB: (indices, 2) int64."""
    entries = np.frombuffer(palette_header(path) or b"", np.uint8).reshape(-1, 3)[:256]
    table = np.zeros(256, np.uint32)  # an index beyond the palette is black, as libpng shows it
    table[: len(entries)] = _packed(entries)
    counts = np.sum([np.bincount(band.ravel(), minlength=256)[:256] for band in mask_bands(path, _BAND)], axis=0)
    used = np.flatnonzero(counts)
    return np.stack([used, table[used]], axis=1).astype(np.int64)


def _packed(colours: np.ndarray) -> np.ndarray:
    """(..., 3) or gray (..., 1) uint8 as (...) uint32 0xRRGGBB."""
    packed = colours[..., 0].astype(np.uint32)
    for sample in (colours.shape[-1] // 2, -1):
        packed <<= 8
        packed |= colours[..., sample]
    return packed
