"""Where an image lies on the earth, as it goes into what is written of it."""

from pathlib import Path

import numpy as np

from hires.data.formats.tiff import tiff_tags
from hires.data.geo_tiff import Georeference, read_georeference
from hires.interfaces import DataError
from hires.predictions.tiff import ASCII, DOUBLE, SHORT, Tag

_KINDS = {33550: DOUBLE, 33922: DOUBLE, 34264: DOUBLE, 34735: SHORT, 34736: DOUBLE, 34737: ASCII}
_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def georeference(path: Path) -> Georeference | None:
    """Where an image lies; None of one that is no GeoTIFF, or whose tags say nothing that can be used."""
    try:
        with open(path, "rb") as file:
            if file.read(4) not in _STARTS:
                return None
        return read_georeference(path)
    except (DataError, OSError):
        return None


def geo_tags(path: Path) -> list[Tag]:
    """The tags of a GeoTIFF that say where it lies (OGC GeoTIFF 1.1, annex B). Raises DataError."""
    found = tiff_tags(path, _KINDS)
    return [Tag(code, _KINDS[code], _values(value, _KINDS[code])) for code, value in found.items()]


def _values(value: object, kind: int) -> object:
    return value if kind == ASCII else np.ravel(np.array(value)).tolist()
