"""Reads where a GeoTIFF lies on the earth: its transformation and the code of its coordinate system.

Source of the tags: OGC GeoTIFF 1.1 (19-008r4), annex B and section 7.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hires.data.formats.tiff import tiff_tags
from hires.data.images import image_size
from hires.interfaces import DataError

_SCALE, _TIEPOINTS, _TRANSFORMATION, _KEYS, _ORIENTATION = 33550, 33922, 34264, 34735, 274
_RASTER_TYPE, _GEOGRAPHIC, _PROJECTED = 1025, 2048, 3072  # keys
_POINT = 2  # raster type: the transformation is of the centres of pixels
_USER_DEFINED = 32767  # no code of EPSG from here on


class Georeference(NamedTuple):
    """Where an image lies."""

    size: tuple[int, int]  # (height, width), pixels
    to_map: np.ndarray  # (2, 3): map x, y of pixel x, y, 1; pixel i reaches from i to i + 1
    to_pixels: np.ndarray  # (2, 3): the other way
    epsg: int | None  # code of the coordinate system, if the file has one

    def bounds(self) -> np.ndarray:
        """(4,) lowest x, y and highest x, y of the image on the map."""
        height, width = self.size
        corners = transformed(np.array([[0, 0], [width, 0], [0, height], [width, height]], float), self.to_map)
        return np.concatenate([corners.min(axis=0), corners.max(axis=0)])


def transformed(points: np.ndarray, by: np.ndarray) -> np.ndarray:
    """(P, 2) points by a (2, 3) transformation; infinite where they do not fit into a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        return points @ by[:, :2].T + by[:, 2]


def read_georeference(path: Path) -> Georeference:
    """Of the first image of a file. Raises DataError for what is no GeoTIFF, or cannot be inverted."""
    size = image_size(path)
    tags = _tags(path)
    if tags.get(_ORIENTATION, 1) != 1:
        raise DataError(f"{path}: has an orientation tag, which no GeoTIFF may have; save it upright")
    to_map = _to_map(path, tags)
    keys = _geo_keys(tags.get(_KEYS))
    if keys.get(_RASTER_TYPE) == _POINT:
        to_map[:, 2] -= to_map[:, :2].sum(axis=1) / 2
    code = keys.get(_PROJECTED) or keys.get(_GEOGRAPHIC) or _USER_DEFINED
    return Georeference(size, to_map, _inverse(path, to_map), code if 0 < code < _USER_DEFINED else None)


def _tags(path: Path) -> dict[int, Any]:
    try:
        return tiff_tags(path, (_SCALE, _TIEPOINTS, _TRANSFORMATION, _KEYS, _ORIENTATION))
    except DataError:
        raise DataError(f"{path}: cannot be read as a GeoTIFF; its GeoJSON needs one") from None


def _to_map(path: Path, tags: dict[int, Any]) -> np.ndarray:
    matrix, scale, points = (_numbers(tags.get(code)) for code in (_TRANSFORMATION, _SCALE, _TIEPOINTS))
    if len(matrix) == 16:
        return matrix.reshape(4, 4)[:2, [0, 1, 3]].copy()
    if len(scale) >= 2 and len(points) >= 6:
        column, row, _, x, y, _ = points[:6].tolist()
        across, down = float(scale[0]), -float(scale[1])
        return np.array([[across, 0, x - column * across], [0, down, y - row * down]])
    held = "only tie points, and no scale" if len(points) else "none of them"
    raise DataError(
        f"{path}: has no georeference (ModelTransformation, or ModelPixelScale and ModelTiepoint; it has {held}); "
        "write one, such as by gdal_translate"
    )


def _inverse(path: Path, to_map: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        determinant = to_map[0, 0] * to_map[1, 1] - to_map[0, 1] * to_map[1, 0]
        turned = np.array([[to_map[1, 1], -to_map[0, 1]], [-to_map[1, 0], to_map[0, 0]]]) / determinant
        inverse = np.column_stack([turned, -turned @ to_map[:, 2]])
    if not (np.isfinite(to_map).all() and np.isfinite(inverse).all()):
        raise DataError(f"{path}: its georeference cannot be inverted ({to_map.tolist()}); write it anew")
    return inverse


def _numbers(value: Any) -> np.ndarray:
    try:
        return np.array(value if value is not None else [], np.float64).ravel()
    except (ValueError, TypeError, OverflowError):
        return np.zeros(0)


def _geo_keys(directory: Any) -> dict[int, int]:
    """Keys with a short number as their value; the others are stored elsewhere and not needed."""
    numbers = _numbers(directory)[4:].astype(np.int64)
    entries = numbers[: len(numbers) // 4 * 4].reshape(-1, 4)
    return {int(key): int(value) for key, location, _, value in entries if location == 0}
