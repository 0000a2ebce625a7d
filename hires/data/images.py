"""Reads image and mask files; everything that is wrong with a file becomes a DataError that names it.

Pixels come out as they were taken: orientation is applied once, to images, masks and sizes alike.
Of a file with several pages or frames (TIFF, MPO, GIF, DICOM) the first is read. What a file is, its content says,
not its name.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.formats.image_file import check_pixels, naming
from hires.data.formats.opening import open_picture
from hires.data.formats.orientation import stored_window, upright, upright_size
from hires.data.formats.picture import Picture
from hires.interfaces import DataError, Window


class ImageInfo(NamedTuple):
    """What the header of an image file says; `read_image` gives just this."""

    size: tuple[int, int]  # (height, width) in pixels, upright
    dtype: np.dtype  # uint8, uint16, int16 or float32
    bands: int  # without alpha
    windowed: bool  # a window is decoded alone; otherwise the whole file is, each time
    format: str  # in words for messages: "PNG", "JPEG", "TIFF"
    alpha: int = 0  # further bands that say how opaque a pixel is; `read_image` gives them where asked to
    orientation: int = 1  # of the stored pixels, 1 to 8 as EXIF counts; sizes and pixels come upright
    rows: int = 1  # that are decoded together where windows are


def image_info(path: str | Path) -> ImageInfo:
    """Size, type and bands of an image from its header, without decoding. Raises DataError."""
    with open_picture(path) as file:
        size = upright_size(file.size, file.orientation)
        rows = file.rows if file.orientation <= 4 else size[0]  # strips of turned images are columns
        return ImageInfo(
            *(size, file.dtype, file.bands, file.windowed),
            *(file.format, file.alphas, file.orientation, rows),
        )


def image_size(path: str | Path) -> tuple[int, int]:
    """(height, width) in pixels after orientation; reads the header only. Raises DataError."""
    return image_info(path).size


def read_image(path: str | Path, window: Window | None = None, *, alpha: bool = False) -> np.ndarray:
    """An image, or a window of it: (H, W, bands), all bands, uint8, uint16, int16 or float32, upright.

    Palettes, CMYK and Lab become RGB. Samples that the file marks as alpha are left out, colours stay as stored,
    nothing is blended, and one log line says so; with `alpha` they are the last bands, as many as `image_info`
    says (the opacity of palette colours is never one). Gray of fewer than 8 bits is stretched over 0..255, of 9 to
    16 bits kept as stored; other sample types become float32, whole numbers where that loses nothing. Tiled and
    striped TIFF, whole slides, binary PNM and .npy decode no more than the window needs. Raises DataError for
    files that are missing, broken, cut short or of no such kind.
    """
    with open_picture(path) as file:
        return _read(path, file, window, alpha=alpha)


def read_values(path: str | Path, window: Window | None = None) -> np.ndarray:
    """As `read_image`, but raw: palette indices, 1 bit as 0 and 1, gray of few bits and all integers as stored."""
    with open_picture(path, values=True) as file:
        return _read(path, file, window)


def _read(path: str | Path, file: Picture, window: Window | None, *, alpha: bool = False) -> np.ndarray:
    height, width = upright_size(file.size, file.orientation)
    window = Window(0, 0, height, width) if window is None else window
    y, x, rows, columns = window
    if min(y, x) < 0 or min(rows, columns) < 1 or y + rows > height or x + columns > width:
        raise DataError(f"{path}: {window} lies outside of its {height} x {width} pixels; has the file changed?")
    check_pixels(path, *((rows, columns) if file.windowed else (height, width)))
    stored = stored_window(window, file.size, file.orientation)
    opaque = file.opaque if alpha and file.alphas else None
    bands = file.bands + (file.alphas if opaque else 0)
    with naming(path):
        array = (opaque or file.pixels)(stored)
        if array.shape != (stored.height, stored.width, bands) or array.dtype != file.dtype:
            raise DataError(
                f"{path}: header says {file.size} (height, width) of {bands} bands, {file.dtype}, which its "
                "pixels are not; save it again"
            )
        return upright(_owned(array), file.orientation)


def _owned(array: np.ndarray) -> np.ndarray:
    """A copy of what cannot be written to, or is part of more, which would be kept with it."""
    whole = array if array.base is None else array.base
    alone = isinstance(whole, np.ndarray) and whole.nbytes == array.nbytes
    return array if alone and array.flags.writeable else array.copy()


COLOURS = 'give colours in data.classes, such as "#3C1098"'
"""What to do about a mask of colours that is to be one of classes."""


def mask_bands(
    path: str | Path, rows: int, window: Window | None = None, *, remedy: str = COLOURS
) -> Iterator[np.ndarray]:
    """Decodes a mask, or a window of it, into its raw values, (rows, W) integers, in bands of at most `rows` rows.

    Palettes give their indices. Raises DataError for files that are missing, broken, or have several channels,
    with a `remedy` for those of colours.
    """
    with open_picture(path, values=True) as file:
        if file.bands != 1 or file.dtype.kind not in "ui":
            colours = f"{remedy}, or " if file.bands == 3 else ""
            raise DataError(
                f"{path}: a mask has one channel of whole numbers, this file has {_mode(file)}; {colours}"
                "save it as 8-bit gray or palette"
            )
        yield from (band[:, :, 0] for band in _bands(path, file, rows, window))


def rgb_bands(path: str | Path, rows: int, window: Window | None = None) -> Iterator[np.ndarray]:
    """Decodes a mask into its colours, (rows, W, 3) or gray (rows, W, 1) uint8, in bands as `mask_bands` does.

    Palettes are resolved. Raises DataError for files that are missing, broken, or not of 8 bits.
    """
    with open_picture(path) as file:
        if file.dtype != np.uint8 or file.bands not in (1, 3, 4):  # a fourth is alpha that is not marked
            raise DataError(
                f"{path}: data.classes lists colours, which need 8-bit RGB, palette or gray masks, this file has "
                f"{_mode(file)}; convert it, or list values"
            )
        yield from (band[:, :, :3] for band in _bands(path, file, rows, window))


def _bands(path: str | Path, file: Picture, rows: int, window: Window | None) -> Iterator[np.ndarray]:
    """The pixels in bands of at most `rows` rows, top to bottom; what is decoded together is decoded once."""
    size = upright_size(file.size, file.orientation)
    top, left, height, width = window or Window(0, 0, *size)
    turned = file.orientation > 4  # strips are columns
    step = file.rows * -(-rows // file.rows) if file.windowed and not turned else size[0]
    bottom = top + height
    while top < bottom:
        end = min(bottom, (top // step + 1) * step)
        block = _read(path, file, Window(top, left, end - top, width))
        yield from (block[start : start + rows] for start in range(0, len(block), rows))
        top = end


def _mode(file: Picture) -> str:
    bits = "" if file.dtype.itemsize == 1 else f" of {8 * file.dtype.itemsize} bits"
    return f"mode RGB{bits}" if file.bands == 3 else f"{file.bands} band(s) of {file.dtype}"
