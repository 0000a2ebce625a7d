"""WebP files, lossless and lossy; of an animation the first frame."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from mmap import mmap
from pathlib import Path

import imagecodecs
import numpy as np

from hires.data.formats.image_file import check_promise, check_sides, mapped, read_bytes, tell_alpha
from hires.data.formats.orientation import exif_orientation
from hires.data.formats.picture import Picture, part
from hires.interfaces import DataError, Window

_ALPHA = 0x10  # in the flags of the extended header
_LONGEST = 2**14  # pixels: no frame has longer sides
_MOST_A_BYTE = 2**18  # bytes of pixels; an image of one colour reaches 80,000


@contextmanager
def open_webp(path: Path, values: bool) -> Iterator[Picture]:
    """RGB; WebP has no gray and no palette."""
    with mapped(path) as content:
        (height, width), alpha = _canvas(path, content)
        orientation, complete = _directory(content)
        held = len(content)
    check_sides(path, height, width)

    def decoded(window: Window, hasalpha: bool) -> np.ndarray:
        if not complete:
            raise DataError(f"{path}: the WebP is cut short; copy it again or remove it")
        check_promise(path, height * width * 3, held, _MOST_A_BYTE)
        return part(imagecodecs.webp_decode(read_bytes(path), hasalpha=hasalpha), window)

    def pixels(window: Window) -> np.ndarray:
        if alpha:
            tell_alpha()
        return decoded(window, hasalpha=False)

    yield Picture(
        *("WebP", (height, width), np.dtype(np.uint8), 3, pixels, orientation),
        alphas=int(alpha),
        opaque=partial(decoded, hasalpha=True),
    )


def _canvas(path: Path, content: mmap) -> tuple[tuple[int, int], bool]:
    """(height, width), and whether there is alpha."""
    kind, head = content[12:16], content[20:30]
    if kind == b"VP8X" and len(head) == 10:
        width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (4, 7))
        if max(height, width) <= _LONGEST:
            return (height, width), bool(head[0] & _ALPHA)
    if kind == b"VP8L" and len(head) >= 5 and head[0] == 0x2F:
        bits = int.from_bytes(head[1:5], "little")
        return (1 + (bits >> 14 & 0x3FFF), 1 + (bits & 0x3FFF)), bool(bits >> 28 & 1)
    if kind == b"VP8 " and head[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", head, 6)
        return (height & 0x3FFF, width & 0x3FFF), False
    raise DataError(f"{path}: the WebP has no header that makes sense; copy it again or remove it")


def _directory(content: mmap) -> tuple[int, bool]:
    """The orientation that an EXIF chunk gives, and whether all of the file is there."""
    at, orientation = 12, 1
    end = 8 + struct.unpack_from("<I", content, 4)[0]
    while at + 8 <= min(end, len(content)):
        name, length = struct.unpack_from("<4sI", content, at)
        if name == b"EXIF":
            orientation = exif_orientation(content[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    return orientation, len(content) >= end
