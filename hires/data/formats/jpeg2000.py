"""JPEG 2000 files and codestreams."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

import imagecodecs
import numpy as np

from hires.data.formats.image_file import check_promise, check_sides, mapped, read_bytes, tell_alpha
from hires.data.formats.picture import Picture, part
from hires.data.formats.sample_types import as_native, native, stretched, without_alpha
from hires.interfaces import DataError, Window

_START = b"\xff\x4f\xff\x51"
_MOST_A_BYTE = 2**18  # bytes of pixels; an image of one colour reaches 120,000
_TYPES = {(8, False): "uint8", (8, True): "int8", (16, False): "uint16", (16, True): "int16"}


class Header(NamedTuple):
    """Of a file or a codestream."""

    height: int
    width: int
    samples: int
    bits: int
    dtype: np.dtype  # as stored
    colours: int  # samples that are no alpha

    @property
    def bytes(self) -> int:
        return self.height * self.width * self.samples * self.dtype.itemsize


@contextmanager
def open_jpeg2000(path: Path, values: bool) -> Iterator[Picture]:
    """All bands but alpha; fewer than 8 bits over 0..255, or with `values` as stored."""
    with mapped(path) as content:
        header = jpeg2000_header(path, content)
        held = len(content)
    size, alphas = (header.height, header.width), header.samples - header.colours
    check_sides(path, *size)

    def pixels(window: Window) -> np.ndarray:
        if alphas:
            tell_alpha()
        return opaque(window, header.colours)

    def opaque(window: Window, bands: int = header.samples) -> np.ndarray:
        check_promise(path, header.bytes, held, _MOST_A_BYTE)
        decoded = without_alpha(imagecodecs.jpeg2k_decode(read_bytes(path)), bands)
        if decoded.shape[:2] != size:
            raise DataError(
                f"{path}: header says {size} (height, width), decoded {decoded.shape[:2]}; save it again"
            )
        decoded = as_native(path, part(decoded, window))
        return decoded if values else stretched(decoded, header.bits)

    dtype = native(path, header.dtype)
    yield Picture("JPEG 2000", size, dtype, header.colours, pixels, alphas=alphas, opaque=opaque)


def jpeg2000_header(path: Path, content: mmap | bytes) -> Header:
    """What the boxes and the codestream say before the pixels. Raises DataError."""
    at = content.find(_START)
    if at < 0 or at + 43 > len(content):
        raise DataError(f"{path}: the JPEG 2000 file has no codestream; copy it again or remove it")
    right, bottom, left, top = struct.unpack_from(">4I", content, at + 8)
    samples = struct.unpack_from(">H", content, at + 40)[0]
    depths = {content[at + 42 + 3 * i] for i in range(samples) if at + 42 + 3 * i < len(content)}
    bits, signed = max((depth & 0x7F for depth in depths), default=0) + 1, any(depth & 0x80 for depth in depths)
    if not depths or bits > 16:
        raise DataError(
            f"{path}: a JPEG 2000 of {samples} bands and {bits} bits cannot be read; convert it to TIFF"
        )
    dtype = np.dtype(_TYPES[8 if bits <= 8 else 16, signed])
    palette = _box(content[:at], b"pclr")
    if palette is not None and len(palette) > 2:  # entries, columns
        return Header(bottom - top, right - left, palette[2], 8, np.dtype(np.uint8), palette[2])
    return Header(bottom - top, right - left, samples, bits, dtype, samples - _alphas(content[:at]))


def _box(head: bytes, name: bytes) -> bytes | None:
    at = head.find(name)
    if at < 4:
        return None
    return head[at + 4 : at - 4 + int.from_bytes(head[at - 4 : at], "big")]


def _alphas(head: bytes) -> int:
    """How many channels the file calls opacity (types 1 and 2 of the channel definitions)."""
    box = _box(head, b"cdef") or b""
    kinds = [struct.unpack_from(">HHH", box, at)[1] for at in range(2, len(box) - 5, 6)]
    return sum(kind in (1, 2) for kind in kinds)
