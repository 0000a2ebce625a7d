"""PNG files: their chunks, orientation and pixels."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

import imagecodecs
import numpy as np

from hires.data.formats.image_file import check_promise, check_sides, mapped, read_bytes, tell_alpha
from hires.data.formats.orientation import exif_orientation
from hires.data.formats.picture import Picture, part
from hires.data.formats.pillow_files import stored_values
from hires.data.formats.sample_types import without_alpha
from hires.interfaces import DataError, Window

_BANDS = {0: 1, 2: 3, 3: 3, 4: 1, 6: 3}  # by colour type, without alpha
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PALETTE, _ALPHA = 3, (4, 6)
_DEFLATE = 1032  # most bytes that one byte of a deflate stream can stand for


class _Header(NamedTuple):
    height: int
    width: int
    bits: int
    colour: int
    orientation: int
    complete: bool


@contextmanager
def open_png(path: Path, values: bool) -> Iterator[Picture]:
    """With `values`, palette indices and gray values of 1 to 4 bits come as stored."""
    with mapped(path) as content:
        header = _header(path, content)
    bands = 1 if values and header.colour == _PALETTE else _BANDS[header.colour]
    dtype = np.dtype(np.uint16 if header.bits == 16 else np.uint8)

    alphas = int(header.colour in _ALPHA)

    def checked() -> bytes:
        data = read_bytes(path)
        _check(path, header, len(data))
        return data

    def pixels(window: Window) -> np.ndarray:
        data = checked()
        if values and (header.colour == _PALETTE or header.bits < 8):
            return part(stored_values(path, data), window)
        if alphas:
            tell_alpha()
        return part(without_alpha(imagecodecs.png_decode(data), bands), window)

    def opaque(window: Window) -> np.ndarray:
        return part(imagecodecs.png_decode(checked()), window)

    size = (header.height, header.width)
    yield Picture("PNG", size, dtype, bands, pixels, header.orientation, alphas=alphas, opaque=opaque)


def _check(path: Path, header: _Header, held: int) -> None:
    if not header.complete:
        raise DataError(f"{path}: the PNG is cut short (no end chunk); copy it again or remove it")
    samples = header.width * _SAMPLES[header.colour]
    check_promise(path, header.height * samples * header.bits // 8, held, _DEFLATE)


def _header(path: Path, content: mmap) -> _Header:
    if len(content) < 33 or content[12:16] != b"IHDR":
        raise DataError(f"{path}: the PNG has no header; copy it again or remove it")
    width, height, bits, colour = struct.unpack_from(">IIBB", content, 16)
    check_sides(path, height, width)
    if colour not in _BANDS or bits not in (1, 2, 4, 8, 16):
        raise DataError(
            f"{path}: the PNG has an impossible header (colour type {colour}, {bits} bits); copy it again"
        )
    orientation, complete = _directory(content)
    return _Header(height, width, bits, colour, orientation, complete)


def _directory(content: mmap) -> tuple[int, bool]:
    """The orientation that an eXIf chunk anywhere gives, and whether the chunks lead to the end."""
    at, orientation = 8, 1
    while at + 8 <= len(content):
        length, name = struct.unpack_from(">I4s", content, at)
        if name == b"IEND":
            return orientation, True
        if name == b"eXIf":
            orientation = exif_orientation(content[at + 8 : at + 8 + length])
        at += length + 12
    return orientation, False
