"""Writes image files byte by byte, so that what readers say is compared with something of its own."""

import io
import struct
import zlib
from collections.abc import Mapping

import cv2
import numpy as np
import tifffile
from PIL import Image

_ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


def bits_of(rows: np.ndarray, bits: int) -> bytes:
    """Rows (H, samples) of values, packed to `bits` each, the highest first; every row begins a byte."""
    spread = (rows[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(spread.reshape(len(rows), -1).astype(bool), axis=1).tobytes()


def png(
    array: np.ndarray,
    bits: int = 8,
    palette: np.ndarray | None = None,
    interlaced: bool = False,
    chunks: Mapping[bytes, bytes] | None = None,
    late: Mapping[bytes, bytes] | None = None,
    size: tuple[int, int] | None = None,
) -> bytes:
    """A PNG of (H, W) or (H, W, samples); `chunks` come before, `late` ones after the pixels."""
    array = array if array.ndim == 3 else array[:, :, None]
    colour = 3 if palette is not None else _COLOUR_TYPES[array.shape[2]]
    height, width = size or array.shape[:2]
    parts = [array[y::down, x::right] for y, x, down, right in _ADAM7] if interlaced else [array]
    data = b"".join(_png_rows(part, bits) for part in parts if part.size)
    content = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced)))
    if palette is not None:
        content += chunk(b"PLTE", palette.astype(np.uint8).tobytes())
    content += b"".join(chunk(name, body) for name, body in (chunks or {}).items())
    content += chunk(b"IDAT", zlib.compress(data, 1))
    content += b"".join(chunk(name, body) for name, body in (late or {}).items())
    return b"\x89PNG\r\n\x1a\n" + content + chunk(b"IEND", b"")


def _png_rows(part: np.ndarray, bits: int) -> bytes:
    rows = part.reshape(len(part), -1)
    packed = rows.astype(">u2").tobytes() if bits == 16 else bits_of(rows, bits)
    width = len(packed) // len(rows)
    return b"".join(b"\0" + packed[at : at + width] for at in range(0, len(packed), width))


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def exif(orientation: int) -> bytes:
    """An EXIF block that says nothing else."""
    return b"II*\0" + struct.pack("<IHHHIII", 8, 1, 274, 3, 1, orientation, 0)


def tiff(
    data: bytes,
    height: int,
    width: int,
    tags: Mapping[int, tuple[str, list[int]]] | None = None,
    *,
    bits: int = 8,
    samples: int = 1,
    photometric: int = 1,
    order: str = "<",
) -> bytes:
    """A TIFF of one uncompressed strip; `tags` (A for text, H, I, and values) go before the usual ones."""
    entries: dict[int, tuple[str, list[int]]] = {
        256: ("I", [width]),
        257: ("I", [height]),
        258: ("H", [bits] * samples),
        259: ("H", [1]),
        262: ("H", [photometric]),
        273: ("I", [8]),
        277: ("H", [samples]),
        278: ("I", [height]),
        279: ("I", [len(data)]),
    }
    entries.update(tags or {})
    start = 8 + len(data) + len(data) % 2
    beyond, directory = b"", struct.pack(f"{order}H", len(entries))
    after = start + 2 + 12 * len(entries) + 4
    for tag, (letter, values) in sorted(entries.items()):
        packed = struct.pack(f"{order}{len(values)}{letter.replace('A', 'B')}", *values)
        if len(packed) > 4:
            packed, beyond = struct.pack(f"{order}I", after + len(beyond)), beyond + packed
        kind = {"B": 1, "A": 2, "H": 3, "I": 4}[letter]
        directory += struct.pack(f"{order}HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    magic = struct.pack(f"{order}HI", 42, start)
    return (
        (b"II" if order == "<" else b"MM")
        + magic
        + data
        + b"\0" * (len(data) % 2)
        + directory
        + b"\0" * 4
        + beyond
    )


def by_pillow(array: np.ndarray, kind: str, mode: str | None = None, **options: object) -> bytes:
    """An array as Pillow encodes it."""
    image = Image.fromarray(array)
    out = io.BytesIO()
    (image.convert(mode) if mode else image).save(out, kind, **options)
    return out.getvalue()


def pillow_reads(data: bytes, mode: str | None = None) -> np.ndarray:
    """(H, W, C) as Pillow decodes it, not turned."""
    with Image.open(io.BytesIO(data)) as image:
        array = np.asarray(image.convert(mode) if mode else image)
    return array if array.ndim == 3 else array[:, :, None]


def by_tifffile(array: np.ndarray, **options: object) -> bytes:
    out = io.BytesIO()
    tifffile.imwrite(out, array, **{"photometric": "minisblack", "metadata": None, **options})
    return out.getvalue()


def cv2_reads(data: bytes) -> np.ndarray:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
