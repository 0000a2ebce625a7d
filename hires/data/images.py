"""Reads image and mask files; everything that is wrong with a file becomes a DataError that names it.

Pixels come out as they were taken: EXIF orientation is applied once, to images, masks and sizes alike.
Of a file with several pages or frames (TIFF, MPO, GIF) the first is read.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from hires.interfaces import DataError, Window

log = logging.getLogger(__name__)

_GRAY = {"1", "L", "LA", "La"}
_COLOUR = {"RGB", "RGBA", "RGBa", "P", "PA"}
_ALPHA = {"LA", "La", "RGBA", "RGBa", "PA"}
_ORIENTATION = 274
_SWAPS_SIDES = (5, 6, 7, 8)
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # in coded data: not stuffing, restart or fill
_LOW_BITS = {"L;2": 85, "L;4": 17}  # Pillow stretches 2- and 4-bit grey to 0..255 by this factor
_lock = RLock()


class ImageInfo(NamedTuple):
    """What the header of an image file says; `read_image` gives just this."""

    size: tuple[int, int]  # (height, width) in pixels, upright
    dtype: np.dtype
    bands: int
    windowed: bool  # a window is decoded alone; otherwise the whole file is, each time
    format: str  # in words for messages: "PNG", "JPEG", "TIFF"
    alpha: bool = False  # the last of the bands says how opaque a pixel is


def image_info(path: str | Path) -> ImageInfo:
    """Size, type and bands of an image from its header, without decoding. Raises DataError."""
    _check_is_file(path)
    with opened(path, path) as file:
        bands = 1 if file.mode in _GRAY else 3
        return ImageInfo(_upright_size(file), np.dtype(np.uint8), bands, False, file.format or "")


def read_image(path: str | Path, window: Window | None = None) -> np.ndarray:
    """Decodes an image, or a window of it, into (H, W, 3) RGB or (H, W, 1) gray, uint8, upright.

    Palettes become RGB. An alpha channel is dropped: colours stay as stored, nothing is blended, and one
    log line says so. Raises DataError for files that are missing, broken, cut short or not 8-bit.
    """
    data = read_bytes(path)
    with opened(path, data) as header:
        mode, size = header.mode, _upright_size(header)
    if mode not in _GRAY | _COLOUR:
        raise DataError(f"{path}: images of mode {mode} are not supported; save it as 8-bit RGB or gray")
    if mode in _ALPHA:
        _note_alpha()
    if data[:2] == b"\xff\xd8" and not _jpeg_is_complete(data):
        raise DataError(f"{path}: the JPEG is cut short (no end marker); copy it again or remove it")
    image = _decode(path, data, cv2.IMREAD_GRAYSCALE if mode in _GRAY else cv2.IMREAD_COLOR_RGB)
    if image.shape[:2] != size:
        raise DataError(f"{path}: header says {size} (height, width), decoded {image.shape[:2]}; save it again")
    image = image if image.ndim == 3 else image[:, :, None]
    if window is None:
        return image
    return image[window.y : window.y + window.height, window.x : window.x + window.width].copy()


def mask_bands(path: str | Path, rows: int) -> Iterator[np.ndarray]:
    """Decodes a mask into its raw values, (rows, W) integers, in bands of at most `rows` rows, top to bottom.

    Palettes give their indices. Raises DataError for files that are missing, broken, or have several channels.
    """
    with opened(path, read_bytes(path)) as file:
        if file.mode not in ("1", "L", "P", "I") and not file.mode.startswith("I;16"):
            colours = 'give colours in data.classes, such as "#3C1098", or ' if file.mode in _COLOUR else ""
            raise DataError(
                f"{path}: a mask has one channel of whole numbers, this file has mode {file.mode}; "
                f"{colours}save it as 8-bit gray or palette"
            )
        stretched = _LOW_BITS.get(_raw_mode(file), 1)
        decode_upright(path, file)
        for band in bands_of(file, rows):
            band = band.astype(np.uint8) if band.dtype == bool else band
            yield band // stretched if stretched > 1 else band


def bands_of(file: Image.Image, rows: int) -> Iterator[np.ndarray]:
    """The pixels of a decoded file in bands of rows; as a whole Pillow would copy them several times."""
    for top in range(0, file.height, rows):
        yield np.asarray(file.crop((0, top, file.width, min(top + rows, file.height))))


def decode_upright(path: str | Path, file: Image.Image) -> None:
    """Decodes what Pillow has opened and turns it upright, in place. Raises DataError."""
    try:
        ImageOps.exif_transpose(file, in_place=True)
        file.load()
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise DataError(f"{path}: cannot be decoded ({error}); copy it again or remove it") from None


def image_size(path: str | Path) -> tuple[int, int]:
    """(height, width) in pixels after orientation; reads the header only. Raises DataError."""
    _check_is_file(path)
    with opened(path, path) as file:
        return _upright_size(file)


def to_channels(image: np.ndarray, channels: int) -> np.ndarray:
    """(H, W, C) as 3 channels (gray three times) or 1 channel (RGB by its luma weights)."""
    if image.shape[2] == channels:
        return image
    code = cv2.COLOR_GRAY2RGB if channels == 3 else cv2.COLOR_RGB2GRAY
    return cv2.cvtColor(np.ascontiguousarray(image), code).reshape(*image.shape[:2], channels)


def _raw_mode(file: Image.Image) -> str:
    tiles = getattr(file, "tile", None) or [("", (), 0, "")]
    return str(tiles[0][3]) if file.format == "PNG" else ""


def _check_is_file(path: str | Path) -> None:
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path}: is a folder, not an image file; rename or remove it")
    if not path.exists():
        raise DataError(f"{path}: no such file; check the path or the link")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty (0 bytes); copy it again or remove it")


def read_bytes(path: str | Path) -> bytes:
    """The content of a file. Raises DataError."""
    _check_is_file(path)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None


@contextmanager
def opened(path: str | Path, source: bytes | str | Path) -> Iterator[Image.Image]:
    """The file's header by Pillow, without its limit on pixels: large images are what we are for."""
    with _lock:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            file = Image.open(BytesIO(source) if isinstance(source, bytes) else source)
        except (UnidentifiedImageError, SyntaxError, ValueError, EOFError):
            raise DataError(f"{path}: not an image that can be read; convert or remove it") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error}); copy it again or remove it") from None
        finally:
            Image.MAX_IMAGE_PIXELS = limit
    with file:
        yield file


def _upright_size(file: Image.Image) -> tuple[int, int]:
    width, height = file.size
    # Pillow turns TIFF files by itself, but shows the tag until they are loaded; asking a PNG without the
    # tag in its header would decode it all
    told = file.format != "TIFF" and (file.format != "PNG" or "exif" in file.info)
    turned = told and file.getexif().get(_ORIENTATION) in _SWAPS_SIDES
    return (width, height) if turned else (height, width)


def _decode(path: str | Path, data: bytes, colour: int) -> np.ndarray:
    level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # our own message says it
    try:  # ANYDEPTH keeps 16 bits visible, which cv2 would otherwise cut to 8 without a word
        image = cv2.imdecode(np.frombuffer(data, np.uint8), colour | cv2.IMREAD_ANYDEPTH)
    except cv2.error as error:
        raise DataError(f"{path}: cannot be decoded ({error.err}); save it again or remove it") from None
    finally:
        cv2.utils.logging.setLogLevel(level)
    if image is None:
        raise DataError(f"{path}: the pixels cannot be decoded (broken or cut short); copy it again or remove it")
    if image.dtype != np.uint8:
        raise DataError(f"{path}: pixels are {image.dtype}, only 8-bit images are supported; convert it to uint8")
    return image


def _jpeg_is_complete(data: bytes) -> bool:
    """Whether the end marker of the (first) image follows its scans; thumbnails in headers do not count."""
    at = 2
    while (match := _JPEG_MARKER.search(data, at)) is not None:
        marker = data[match.end() - 1]
        if marker == 0xD9:
            return True
        at = match.end()
        if marker != 0x01 and at + 2 <= len(data):  # TEM stands alone, the others carry their length
            at += int.from_bytes(data[at : at + 2], "big")
    return False


@cache
def _note_alpha() -> None:
    log.warning("alpha channels are ignored: the colours are used as stored")
