"""Writes small GeoTIFF images and GeoJSON files for tests."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

SCALE, TIEPOINT, TRANSFORMATION, KEYS = 33550, 33922, 34264, 34735
UTM33 = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}


def keys(epsg: int | None = 32633, point: bool = False) -> tuple[int, ...]:
    """A directory of GeoTIFF keys."""
    entries = [(1024, 0, 1, 1), (1025, 0, 1, 2 if point else 1)]
    if epsg is not None:
        entries.append((2048 if epsg == 4326 else 3072, 0, 1, epsg))
    return (1, 1, 0, len(entries), *(value for entry in entries for value in entry))


def tags(corner: tuple[float, float], pixel: float, **options: Any) -> list[tuple]:
    """Scale and tie point of an image whose upper left corner lies at x, y of a map."""
    directory = keys(**options)
    return [
        (SCALE, 12, 3, (pixel, pixel, 0.0), True),
        (TIEPOINT, 12, 6, (0.0, 0.0, 0.0, *corner, 0.0), True),
        (KEYS, 3, len(directory), directory, True),
    ]


def geotiff(path: Path, extratags: list[tuple], size: tuple[int, int] = (40, 60)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(1).integers(60, 120, (*size, 3), np.uint8)
    tifffile.imwrite(path, pixels, photometric="rgb", extratags=extratags)
    return path


def polygon(*rings: list[list[float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[*ring, ring[0]] for ring in rings]}


def square(x: float, y: float, side: float) -> list[list[float]]:
    """A ring to the right of and below x, y on a map whose y goes up."""
    return [[x, y], [x + side, y], [x + side, y - side], [x, y - side]]


def feature(geometry: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def geojson(path: Path, *features: Any, **more: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features)} | more))
    return path
