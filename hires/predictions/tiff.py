"""Writes a tiled, compressed TIFF row by row: TIFF 6.0, BigTIFF where the file may exceed 4 GiB."""

import struct
import zlib
from collections.abc import Sequence
from html import escape
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

TILE = 256  # pixels of a side
_LEVEL = 6
_CLASSIC_MOST = 2**32 - 2**26  # bytes of pixels
ASCII, SHORT, LONG, DOUBLE, LONG8 = 2, 3, 4, 12, 16
"""Kinds of values."""
_FORMS = {SHORT: "H", LONG: "I", DOUBLE: "d", LONG8: "Q"}
_DEFLATE, _GRAY, _PALETTE, _SEPARATE = 8, 1, 3, 2
_FLOAT, _UNSIGNED = 3, 1
_DESCRIPTION, _SOFTWARE, _GDAL_METADATA = 270, 305, 42112


class Tag(NamedTuple):
    """An entry of the directory of a file."""

    code: int
    kind: int
    values: Any  # numbers, or a text


class TiffTiles:
    """An image of one or more planes of uint8, uint16 or float16; a context manager.

    `size` is (height, width), `palette` (K, 3) uint8, `names` what the planes are (GDAL shows them), `tags` are
    further ones. The pixels of one row of tiles are held.
    """

    def __init__(
        self,
        file: BinaryIO,
        size: tuple[int, int],
        dtype: np.dtype,
        *,
        planes: int = 1,
        palette: np.ndarray | None = None,
        names: Sequence[str] = (),
        description: str = "",
        tags: Sequence[Tag] = (),
    ):
        self._file, self.size, self.dtype, self._planes = file, size, dtype.newbyteorder("<"), planes
        across = -(-size[1] // TILE)
        self._rows = np.zeros((planes, TILE, across * TILE), self.dtype)
        self._filled, self._above = 0, 0  # rows that are held, and rows of tiles that are written
        self._offsets = np.zeros((planes, -(-size[0] // TILE), across), np.uint64)
        self._counts = np.zeros_like(self._offsets)
        self._tags = [*self._fixed(palette), *_texts(names, description), *tags]
        self._big = size[0] * size[1] * planes * dtype.itemsize > _CLASSIC_MOST
        file.write(b"II+\0\x08\0\0\0" + bytes(8) if self._big else b"II*\0" + bytes(4))
        self._at = file.tell()

    def add(self, rows: np.ndarray) -> None:
        """The next rows (planes, n, W) from the top."""
        start = 0
        while start < rows.shape[1]:
            count = min(TILE - self._filled, rows.shape[1] - start)
            self._rows[:, self._filled : self._filled + count, : self.size[1]] = rows[:, start : start + count]
            self._filled += count
            start += count
            if self._filled == TILE:
                self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if self._filled:
                self._rows[:, self._filled :] = 0
                self._flush()
            self._finish()

    def _fixed(self, palette: np.ndarray | None) -> list[Tag]:
        height, width = self.size
        bits, number = 8 * self.dtype.itemsize, _FLOAT if self.dtype.kind == "f" else _UNSIGNED
        tags = [
            *(Tag(256, LONG, [width]), Tag(257, LONG, [height]), Tag(258, SHORT, [bits] * self._planes)),
            *(Tag(259, SHORT, [_DEFLATE]), Tag(262, SHORT, [_GRAY if palette is None else _PALETTE])),
            *(Tag(277, SHORT, [self._planes]), Tag(284, SHORT, [_SEPARATE if self._planes > 1 else 1])),
            *(Tag(322, SHORT, [TILE]), Tag(323, SHORT, [TILE]), Tag(339, SHORT, [number] * self._planes)),
        ]
        if self._planes > 1:
            tags.append(Tag(338, SHORT, [0] * (self._planes - 1)))  # of no special meaning
        if palette is not None:
            table = np.zeros((3, 256), np.uint16)
            table[:, : len(palette)] = palette.T.astype(np.uint16) * 257
            tags.append(Tag(320, SHORT, table.ravel().tolist()))
        return tags

    def _flush(self) -> None:
        for plane, rows in enumerate(self._rows):
            for column in range(self._offsets.shape[2]):
                tile = rows[:, column * TILE : (column + 1) * TILE]
                content = zlib.compress(np.ascontiguousarray(tile).tobytes(), _LEVEL)
                self._offsets[plane, self._above, column] = self._at
                self._counts[plane, self._above, column] = len(content)
                self._file.write(content)
                self._at += len(content)
        self._above, self._filled = self._above + 1, 0

    def _finish(self) -> None:
        """Writes the directory, and where it is into the header."""
        wide = LONG8 if self._big else LONG
        tables = [Tag(324, wide, self._offsets.ravel().tolist()), Tag(325, wide, self._counts.ravel().tolist())]
        number, room = ("Q", 8) if self._big else ("I", 4)
        entries = []
        for tag in sorted([*self._tags, *tables], key=lambda tag: tag.code):
            content, count = _encoded(tag)
            if len(content) > room:
                content = struct.pack(f"<{number}", self._append(content))
            entries.append(struct.pack(f"<HH{number}", tag.code, tag.kind, count) + content.ljust(room, b"\0"))
        length = struct.pack("<Q" if self._big else "<H", len(entries))
        start = self._append(length + b"".join(entries) + bytes(room))
        self._file.seek(8 if self._big else 4)
        self._file.write(struct.pack(f"<{number}", start))

    def _append(self, content: bytes) -> int:
        """Where in the file the content lies from now on: at an even place."""
        padding = b"\0" * (self._at % 2)
        self._file.write(padding + content)
        start = self._at + len(padding)
        self._at = start + len(content)
        return start


def _texts(names: Sequence[str], description: str) -> list[Tag]:
    items = "".join(
        f'<Item name="DESCRIPTION" sample="{index}" role="description">{escape(name)}</Item>'
        for index, name in enumerate(names)
    )
    tags = [Tag(_SOFTWARE, ASCII, "hires")]
    if names:
        tags.append(Tag(_GDAL_METADATA, ASCII, f"<GDALMetadata>{items}</GDALMetadata>"))
    return [*tags, Tag(_DESCRIPTION, ASCII, description)] if description else tags


def _encoded(tag: Tag) -> tuple[bytes, int]:
    """The values as bytes, and their number."""
    if tag.kind == ASCII:
        text = str(tag.values).encode() + b"\0"
        return text, len(text)
    return struct.pack(f"<{len(tag.values)}{_FORMS[tag.kind]}", *tag.values), len(tag.values)
