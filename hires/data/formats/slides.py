"""Whole slides that TIFF alone does not describe, by OpenSlide: windows of level 0."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hires.data.formats.image_file import check_sides, naming
from hires.data.formats.picture import Picture
from hires.interfaces import DataError, Window

_WHOLE = 2**28  # pixels of a slide that are read at once
_ROWS = 1024  # at a time: OpenSlide gives four bytes a pixel, and Pillow copies them


@contextmanager
def open_slide(path: Path, values: bool) -> Iterator[Picture]:
    """RGB; where nothing was scanned, the slide's background colour, or white."""
    library = _library(path)
    with naming(path):
        slide = library.OpenSlide(str(path))
    with slide:
        width, height = slide.dimensions
        check_sides(path, height, width)

        def pixels(window: Window) -> np.ndarray:
            if window.height * window.width > _WHOLE:
                raise DataError(
                    f"{path}: {window.height} x {window.width} pixels of a whole slide are too many at once; "
                    "read windows of it (data.fit=window), or save a smaller level as TIFF"
                )
            return _region(slide, window)

        yield Picture("whole slide", (height, width), np.dtype(np.uint8), 3, pixels, windowed=True)


def _region(slide: Any, window: Window) -> np.ndarray:
    colour = slide.properties.get("openslide.background-color", "ffffff")
    background = np.frombuffer(bytes.fromhex(colour), np.uint8)
    result = np.empty((window.height, window.width, 3), np.uint8)
    for top in range(0, window.height, _ROWS):
        rows = min(_ROWS, window.height - top)
        rgba = np.asarray(slide.read_region((window.x, window.y + top), 0, (window.width, rows)))
        result[top : top + rows] = np.where(rgba[..., 3:] == 0, background, rgba[..., :3])
    return result


def _library(path: Path) -> Any:
    try:
        import openslide
    except ImportError:
        raise DataError(f"{path}: whole slides of this kind need OpenSlide: pip install 'hires[slides]'") from None
    return openslide
