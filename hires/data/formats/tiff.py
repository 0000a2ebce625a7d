"""TIFF, BigTIFF and GeoTIFF: the first full page, by windows, all bands.

Samples of a page are bands, whether they lie together or plane by plane; pages are images of their own, of which
the first that is neither a thumbnail nor a mask is read.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from tifffile import TiffFile, TiffFileError, TiffPage

from hires.data.formats.image_file import (
    check_is_file,
    check_promise,
    check_sides,
    naming,
    read_bytes,
    tell_alpha,
    tell_once,
)
from hires.data.formats.orientation import mirrored, valid_orientation
from hires.data.formats.picture import Picture, part
from hires.data.formats.sample_types import as_native, native, without_alpha
from hires.data.formats.slides import open_slide
from hires.data.formats.tiff_colours import alphas, meaning
from hires.data.formats.tiff_segments import Segments
from hires.interfaces import DataError, Window

_YCBCR, _ORIENTATION = 6, 274
_REDUCED_OR_MASK = 1 | 4
_GIVES_RGB = (6, 7, 34892, 33007, 50001)  # JPEG and WebP within TIFF
_APERIO_JPEG_2000 = (33003, 33005)
_LARGEST_TILE = 2**26  # pixels
_PAGES_SEARCHED = 32
_RGB_RATIO = 2**12  # pixels that a byte of LZW or deflate can stand for, at most


@contextmanager
def open_tiff(path: Path, values: bool) -> Iterator[Picture]:
    """All bands but those marked as alpha; palettes, CMYK, YCbCr and Lab as RGB.

    With `values`: whole numbers and palette indices as stored, one bit as 0 and 1.
    """
    with _opened(path) as file:
        with naming(path):
            page = _first_page(path, file)
            check_sides(path, page.imagelength, page.imagewidth)
            slide = _is_slide(page)
            if slide:
                _check_slide(path, file)
            picture = None if slide else _picture(path, page, values)
        if picture is not None:
            yield picture
            return
    with open_slide(path, values) as picture:
        yield picture


def tiff_tags(path: Path, codes: Iterable[int]) -> dict[int, Any]:
    """The values of those tags that the page has which is read as the image. Raises DataError."""
    with _opened(path) as file, naming(path):
        tags = _first_page(path, file).tags
        return {code: tags[code].value for code in codes if code in tags}


def _opened(path: Path) -> TiffFile:
    check_is_file(path)
    with naming(path):
        # without what tifffile would do beyond reading pages: following other files, repairing vendors' tables
        return TiffFile(path, mode="r", _multifile=False, is_lsm=False, is_scanimage=False, is_ndpi=False)


def _is_slide(page: TiffPage) -> bool:
    """Whether the first page alone is not the slide: Leica, Hamamatsu, Ventana, Philips, some of Aperio."""
    hamamatsu = 65420 in page.tags and 271 in page.tags
    coded = page.compression in _APERIO_JPEG_2000
    return bool(page.is_scn or page.is_bif or page.is_philips or hamamatsu or coded)


def _check_slide(path: Path, file: TiffFile) -> None:
    """Raises DataError for tiles and strips that cannot be: OpenSlide makes room for them, or ends the process."""
    for page in _pages(file):
        ends = np.array(page.dataoffsets, np.float64) + np.resize(page.databytecounts, len(page.dataoffsets))
        if ends.max(initial=0) > file.filehandle.size:
            raise DataError(f"{path}: tiles lie beyond the end of the file: it is cut short; copy it again")
        rows, columns = page.rowsperstrip or page.tilelength, page.tilewidth or page.imagewidth
        if not 0 < rows * columns <= _LARGEST_TILE:
            raise DataError(
                f"{path}: a tile of the slide has {rows} x {columns} pixels; it is damaged: copy it again"
            )


def _first_page(path: Path, file: TiffFile) -> TiffPage:
    pages = _pages(file)
    for page in pages:
        if not int(page.subfiletype) & _REDUCED_OR_MASK:
            second = next(pages, None)
            if second is not None and (second.shape, second.dtype) == (page.shape, page.dtype):
                tell_once("of image files with several pages of one size only the first is read")
            return page
    raise DataError(f"{path}: the TIFF has no full page; copy it again or remove it")


def _pages(file: TiffFile) -> Iterator[TiffPage]:
    for number in range(_PAGES_SEARCHED):
        try:
            page = file.pages[number]
        except (IndexError, TiffFileError):
            return
        if isinstance(page, TiffPage):
            yield page


def _picture(path: Path, page: TiffPage, values: bool) -> Picture:
    size = (page.imagelength, page.imagewidth)
    orientation = valid_orientation(page.tags.valueof(_ORIENTATION, 1))
    if int(page.photometric) == _YCBCR and page.compression not in _GIVES_RGB:
        return _by_libtiff(path, page.index, size, orientation)
    read, segments = meaning(path, page, values), Segments(path, page)
    kept = page.samplesperpixel - alphas(page)

    def pixels(window: Window) -> np.ndarray:
        if kept < page.samplesperpixel:
            tell_alpha()
        return read.apply(segments.read(window)[..., :kept])

    def opaque(window: Window) -> np.ndarray:
        stored = segments.read(window)
        shown = (read.apply(stored[..., :kept]), as_native(path, stored[..., kept:]))
        return np.concatenate(shown, axis=2)

    plain = not values and native(path, segments.dtype) == read.dtype
    return Picture(
        *("TIFF", size, read.dtype, read.bands, pixels, orientation, segments.windowed),
        rows=segments.together,
        alphas=page.samplesperpixel - kept if plain else 0,
        opaque=opaque,
    )


def _by_libtiff(path: Path, number: int, size: tuple[int, int], orientation: int) -> Picture:
    """YCbCr without JPEG, maybe subsampled, which libtiff turns into RGB; the whole is decoded."""

    def pixels(window: Window) -> np.ndarray:
        data = read_bytes(path)
        check_promise(path, size[0] * size[1], len(data), _RGB_RATIO)
        decoded = imagecodecs.tiff_decode(data, index=number, asrgb=True)
        # libtiff mirrors, but swaps no sides
        return part(without_alpha(mirrored(decoded, orientation), 3), window)

    return Picture("TIFF", size, np.dtype(np.uint8), 3, pixels, orientation)
