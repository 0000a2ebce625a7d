"""JPEG files (also the first picture of MPO): their markers, orientation and pixels."""

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

import imagecodecs
import numpy as np

from hires.data.formats.colour_spaces import cmyk_to_rgb
from hires.data.formats.image_file import check_promise, check_sides, mapped, read_bytes
from hires.data.formats.orientation import exif_orientation
from hires.data.formats.picture import Picture, part
from hires.interfaces import DataError, Window

_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # in coded data: not stuffing, restart or fill
_FRAMES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # the last of JPEG-LS, as it is within DICOM
_ARITHMETIC = range(0xC9, 0xD0)
_BANDS = {1: 1, 3: 3, 4: 3}
# of Huffman codes: a bit for 64 samples at least, a quarter of them chroma; of arithmetic ones a lot
_PIXELS_A_BYTE, _ARITHMETIC_A_BYTE = 1024, 2**16
_MOST_SCANS = 200  # encoders make about ten; each goes over all pixels


class Header(NamedTuple):
    """Of the frame; `scan` is where its first scan begins."""

    height: int
    width: int
    bits: int
    components: int
    arithmetic: bool
    orientation: int
    scan: int


@contextmanager
def open_jpeg(path: Path, values: bool) -> Iterator[Picture]:
    """Gray or RGB; CMYK and YCCK become RGB."""
    with mapped(path) as content:
        header = jpeg_header(path, content)
    size, bands = (header.height, header.width), _BANDS.get(header.components)
    check_sides(path, *size)
    if bands is None:
        raise DataError(
            f"{path}: a JPEG of {header.components} components is neither gray, RGB nor CMYK; convert it"
        )
    dtype = np.dtype(np.uint8 if header.bits <= 8 else np.uint16)

    def pixels(window: Window) -> np.ndarray:
        data = read_bytes(path)
        check_jpeg(path, header, data)
        decoded = part(imagecodecs.jpeg8_decode(data), window)
        # what writes CMYK into JPEG (Adobe's conventions) stores it inverted
        return cmyk_to_rgb(~decoded) if header.components == 4 else decoded

    yield Picture("JPEG", size, dtype, bands, pixels, header.orientation)


def check_jpeg(path: Path, header: Header, data: bytes) -> None:
    """Raises DataError for a JPEG (maybe within another file) that is cut short or made to keep decoders busy."""
    if not _is_complete(data, header.scan):
        raise DataError(f"{path}: the JPEG is cut short (no end marker); copy it again or remove it")
    check_work(path, header, data)


def check_work(path: Path, header: Header, data: bytes) -> None:
    """Raises DataError for more pixels, or more passes over them, than a sound file of this length has."""
    ratio = _ARITHMETIC_A_BYTE if header.arithmetic else _PIXELS_A_BYTE
    check_promise(path, header.height * header.width, len(data), ratio)
    if data.count(b"\xff\xda", header.scan) > _MOST_SCANS:
        raise DataError(
            f"{path}: the JPEG has more than {_MOST_SCANS} scans, made to keep decoders busy; remove it"
        )


def jpeg_header(path: Path, content: mmap | bytes) -> Header:
    """What stands before the first scan. Raises DataError."""
    at, orientation, frame = 2, 0, None
    while at + 4 <= len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD8:  # fill, and markers that stand alone
            at += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(content[at + 2 : at + 4], "big")
        if marker in _FRAMES and length >= 8 and at + 10 <= len(content):
            frame = *struct.unpack_from(">BHHB", content, at + 4), marker in _ARITHMETIC
        elif marker == 0xE1 and not orientation and content[at + 4 : at + 10] == b"Exif\0\0":
            orientation = exif_orientation(content[at + 4 : at + 2 + length])
        elif marker in (0xDA, 0xD9):
            break
        at += 2 + length
    if frame is None:
        raise DataError(f"{path}: the JPEG is cut short or damaged (no frame header); copy it again or remove it")
    bits, height, width, components, arithmetic = frame
    return Header(height, width, bits, components, arithmetic, orientation or 1, at)


def _is_complete(data: bytes, scan: int) -> bool:
    """Whether the end marker of the (first) image follows its scans; thumbnails in headers do not count."""
    if data[-2:] == b"\xff\xd9" and len(data) - 2 > scan:
        return True
    at = scan
    while (match := _MARKER.search(data, at)) is not None:
        marker = data[match.end() - 1]
        if marker == 0xD9:
            return True
        at = match.end()
        if marker != 0x01 and at + 2 <= len(data):  # TEM stands alone, the others carry their length
            at += int.from_bytes(data[at : at + 2], "big")
    return False
