"""Reads masks by their colours, and says where palettes contradict each other."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from hires.data.images import bands_of, decode_upright, opened, read_bytes
from hires.interfaces import DataError

_PALETTE, _GRAY, _RGB = ("P", "PA"), ("1", "L", "LA"), ("RGB", "RGBA")


def colour_bands(path: str | Path, rows: int) -> Iterator[np.ndarray]:
    """The colours of a mask file, 0xRRGGBB, in bands of at most `rows` rows: (rows, W) uint32, top to bottom.

    A palette is resolved, gray is (g, g, g), alpha is dropped. Raises DataError for files that are missing,
    broken or not 8-bit.
    """
    with opened(path, read_bytes(path)) as file:
        deep = ";16" in str(getattr(file, "tile", ""))  # Pillow cuts 16-bit colours to 8 bits without a word
        if deep or file.mode not in _PALETTE + _GRAY + _RGB:
            shown = f"mode {file.mode}{' of 16 bits' if deep and file.mode in _RGB else ''}"
            raise DataError(
                f"{path}: data.classes lists colours, which need 8-bit RGB, palette or gray masks, this file has "
                f"{shown}; convert it, or list values"
            )
        decode_upright(path, file)
        table = _colours_of_values(file)
        for band in bands_of(file, rows):
            if file.mode in _RGB:
                yield _packed(band[..., :3])
            else:
                yield table[(band if band.ndim == 2 else band[..., 0]).astype(np.uint8)]


def palette_header(path: str | Path) -> tuple[str, bytes] | None:
    """The palette of a file as its header holds it, without decoding; None for files without one."""
    with opened(path, path) as file:
        if file.mode != "P" or file.palette is None:
            return None
        order, colours = file.palette.getdata()
        return str(order), bytes(colours)


def used_colours(path: Path) -> np.ndarray:
    """The palette indices that occur in a file and their colours 0xRRGGBB: (indices, 2) int64."""
    with opened(path, read_bytes(path)) as file:
        decode_upright(path, file)
        used = np.flatnonzero(file.histogram()[:256])
        return np.stack([used, _colours_of_values(file)[used]], axis=1).astype(np.int64)


def _colours_of_values(file: Image.Image) -> np.ndarray:
    """The colour of every value of a decoded palette or gray file: (256,) uint32."""
    if file.mode not in _PALETTE:
        grays = np.arange(256, dtype=np.uint32) * 0x010101
        if file.mode == "1":
            grays[1] = 0xFFFFFF
        return grays
    table = np.zeros(256, np.uint32)  # an index beyond the palette is black, as libpng shows it
    palette = _packed(np.array(file.getpalette("RGB"), np.uint8).reshape(-1, 3))
    table[: len(palette)] = palette
    return table


def _packed(colours: np.ndarray) -> np.ndarray:
    """(..., 3) uint8 as (...) uint32 0xRRGGBB."""
    wide = colours.astype(np.uint32)
    return wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
