"""Writes a PNG row by row, so that the image never exists as a whole (W3C PNG specification, third edition)."""

import struct
import zlib
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

_LEVEL = 6
_GRAY, _PALETTE = 0, 3  # colour types


class PngRows:
    """A gray image of 8 or 16 bits, or one of 8 bits with a palette (K, 3) uint8; a context manager.

    `size` is (height, width).
    """

    def __init__(self, file: BinaryIO, size: tuple[int, int], dtype: np.dtype, palette: np.ndarray | None = None):
        self._file, self._dtype = file, dtype.newbyteorder(">")
        self._deflate = zlib.compressobj(_LEVEL)
        kind = _GRAY if palette is None else _PALETTE
        file.write(b"\x89PNG\r\n\x1a\n")
        self._chunk(b"IHDR", struct.pack(">IIBBBBB", size[1], size[0], 8 * dtype.itemsize, kind, 0, 0, 0))
        if palette is not None:
            self._chunk(b"PLTE", palette.tobytes())

    def add(self, rows: np.ndarray) -> None:
        """The next rows (n, W) from the top."""
        stored = np.ascontiguousarray(rows, self._dtype).view(np.uint8)
        unfiltered = np.zeros((len(stored), 1), np.uint8)  # each row says first how it is filtered
        lines = np.concatenate([unfiltered, stored], axis=1)
        self._chunk(b"IDAT", self._deflate.compress(lines.tobytes()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._chunk(b"IDAT", self._deflate.flush())
            self._file.write(struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND")))

    def _chunk(self, name: bytes, content: bytes) -> None:
        if content:
            check = zlib.crc32(content, zlib.crc32(name))
            self._file.write(struct.pack(">I", len(content)) + name + content + struct.pack(">I", check))
