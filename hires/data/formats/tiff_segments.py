"""The strips and tiles of a TIFF page: a window is put together from those that it touches."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tifffile import TiffPage

from hires.data.formats.image_file import check_promise
from hires.data.formats.jpeg import check_jpeg, jpeg_header
from hires.interfaces import DataError, Window

_NONE, _JPEGS = 1, (6, 7, 34892, 33007)
_LENGTHS = {279, 325}  # the tags with the bytes of strips and tiles
_LARGEST = 2**30  # bytes of one segment that no file needs
# most bytes that one byte can stand for: of PackBits, LZW and deflate by their definition, of others a lot
_RATIOS = {_NONE: 1, 32773: 64, 5: 2731, 8: 1032, 32946: 1032}
_OTHER_RATIO = 2**16
_JPEG_RATIO = 3 * 1024


class Segments:
    """The strips or tiles of a page, decoded as they are asked for. Raises DataError for a wrong table of them."""

    def __init__(self, path: Path, page: TiffPage):
        self._path, self._page, self.dtype = path, page, np.dtype(page.dtype)
        self.height, self.width = page.imagelength, page.imagewidth
        tiled = page.is_tiled
        self.rows = page.tilelength if tiled else min(page.rowsperstrip, self.height)
        self._columns = page.tilewidth if tiled else self.width
        if page.imagedepth > 1 or (tiled and page.tiledepth > 1):
            raise DataError(f"{path}: a volume of {page.imagedepth} planes is no image; save its planes as pages")
        self._planes = page.samplesperpixel if page.planarconfig == 2 else 1
        self.samples = page.samplesperpixel
        self._check()

    @property
    def windowed(self) -> bool:
        """Whether a window is read without all of the file."""
        return self._mappable() or self.rows < self.height or self._columns < self.width

    @property
    def together(self) -> int:
        """Rows that are decoded together."""
        return 1 if self._mappable() else self.rows

    def read(self, window: Window) -> np.ndarray:
        """(h, w, samples) of the window as stored, packed samples unpacked."""
        if self._mappable():
            return self._mapped(window)
        result = np.empty((window.height, window.width, self.samples), self.dtype.newbyteorder("="))
        for plane in range(self._planes):
            target = result[:, :, plane : plane + 1] if self._planes > 1 else result
            for row, column in self._touched(window):
                self._paste(target, window, plane, row, column)
        return result

    def _check(self) -> None:
        page, path = self._page, self._path
        if self.rows < 1 or self._columns < 1:
            raise DataError(f"{path}: the TIFF has strips or tiles without pixels; save it again")
        self._down, self._across = -(-self.height // self.rows), -(-self.width // self._columns)
        wanted = self._planes * self._down * self._across
        if min(len(page.dataoffsets), len(page.databytecounts)) < wanted:
            raise DataError(
                f"{path}: the TIFF lists {len(page.dataoffsets)} of the {wanted} strips or tiles that its size "
                "needs; it is damaged: copy it again or remove it"
            )
        bits = page.bitspersample if isinstance(page.bitspersample, int) else max(page.bitspersample)
        contiguous = page.samplesperpixel // self._planes
        self._segment_bytes = self.rows * self._columns * contiguous * bits // 8
        if self._segment_bytes > _LARGEST and self.rows * self._columns > 4 * self.height * self.width:
            raise DataError(f"{path}: the TIFF has tiles far larger than its image; save it again")

    def _mappable(self) -> bool:
        page = self._page
        plain = page.is_final and page.bitspersample in (8, 16, 32, 64)
        return bool(plain and (not page.is_tiled or self._down * self._across == 1))

    def _mapped(self, window: Window) -> np.ndarray:
        page = self._page
        dtype = self.dtype.newbyteorder(page.parent.byteorder)
        lying = (self.height, self.width)
        shape = (self.samples, *lying) if self._planes > 1 else (*lying, self.samples)
        needed = page.dataoffsets[0] + self.height * self.width * self.samples * dtype.itemsize
        if needed > page.parent.filehandle.size:
            raise self._cut()
        stored = np.memmap(self._path, dtype, "r", page.dataoffsets[0], shape)
        rows = slice(window.y, window.y + window.height)
        columns = slice(window.x, window.x + window.width)
        picked = stored[:, rows, columns].transpose(1, 2, 0) if self._planes > 1 else stored[rows, columns]
        return np.array(picked, self.dtype.newbyteorder("="), order="C")

    def _touched(self, window: Window) -> Iterator[tuple[int, int]]:
        for row in range(window.y // self.rows, (window.y + window.height - 1) // self.rows + 1):
            for column in range(window.x // self._columns, (window.x + window.width - 1) // self._columns + 1):
                yield row, column

    def _paste(self, target: np.ndarray, window: Window, plane: int, row: int, column: int) -> None:
        index = (plane * self._down + row) * self._across + column
        top, left = row * self.rows, column * self._columns
        y, x = max(window.y, top), max(window.x, left)
        bottom = min(window.y + window.height, top + self.rows)
        right = min(window.x + window.width, left + self._columns)
        decoded = self._decoded(index)
        place = target[y - window.y : bottom - window.y, x - window.x : right - window.x]
        place[...] = (
            self._page.nodata if decoded is None else decoded[y - top : bottom - top, x - left : right - left]
        )

    def _decoded(self, index: int) -> np.ndarray | None:
        """One segment (h, w, samples), or None where the file leaves it out (all is nodata)."""
        page = self._page
        offset, count = page.dataoffsets[index], page.databytecounts[index]
        if not count and _LENGTHS.intersection(page.tags.keys()):
            return None
        if not count or offset + count > page.parent.filehandle.size:
            raise self._cut()
        ratio = _JPEG_RATIO if page.compression in _JPEGS else _RATIOS.get(page.compression, _OTHER_RATIO)
        check_promise(self._path, self._segment_bytes, count, ratio)
        handle = page.parent.filehandle
        handle.seek(offset)
        data = handle.read(count)
        tables = {}
        if page.compression in _JPEGS:
            self._check_jpeg(data)
            tables = {"jpegtables": page.jpegtables, "jpegheader": page.jpegheader}
        decoded = page.decode(data, index, **tables)[0]
        if decoded is None:
            return None
        if decoded.dtype.itemsize != self.dtype.itemsize or decoded.dtype.kind not in (self.dtype.kind, "u"):
            raise DataError(f"{self._path}: holds {decoded.dtype} where it says {self.dtype}; save it again")
        return decoded[0]

    def _check_jpeg(self, data: bytes) -> None:
        """A JPEG within has a size of its own, for which the decoder makes room."""
        if self._page.jpegheader is not None or data[:2] != b"\xff\xd8":
            return
        inner = jpeg_header(self._path, data)
        if inner.height * inner.width > 4 * self.rows * self._columns + 2**20:
            raise DataError(
                f"{self._path}: a JPEG within the TIFF is larger than its tile; it is damaged, save it again"
            )
        check_jpeg(self._path, inner, data)

    def _cut(self) -> DataError:
        return DataError(
            f"{self._path}: pixels lie beyond the end of the file: it is cut short; copy it again or remove it"
        )
