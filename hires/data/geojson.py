"""Reads the polygons of GeoJSON files (RFC 7946, and the member `crs` of its draft of 2008)."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hires.data.label_json import name_of, point_array, read_json, shown
from hires.interfaces import DataError

CRS84 = 4326
"""EPSG's code of longitude and latitude, CRS84 of OGC, but for the order of the axes, which GeoJSON fixes."""

_EPSG = re.compile(r"(?:urn:(?:x-)?ogc:def:crs:)?EPSG:(?:[\d.]*:)?(\d{1,9})", re.IGNORECASE)
_CRS84 = re.compile(r"(?:urn:(?:x-)?ogc:def:crs:)?OGC:(?:[\d.]*:)?CRS84", re.IGNORECASE)
_DEEPEST = 20  # collections within collections

Polygon = list[np.ndarray]
"""Rings, each (P, 2) x y on the map: the border, then the holes."""


class Feature(NamedTuple):
    """One object."""

    name: str  # of its class
    polygons: list[Polygon]

    def bounds(self) -> np.ndarray:
        """(4,) lowest x, y and highest x, y."""
        points = np.concatenate([polygon[0] for polygon in self.polygons])
        return np.concatenate([points.min(axis=0), points.max(axis=0)])


class GeoFile(NamedTuple):
    """What one file says."""

    features: list[Feature]
    epsg: int | None  # code of the coordinate system, if the file names one
    left_out: Counter[str]  # features without area, by the type of their geometry


def read_geojson(path: Path, class_property: str | None, one_class: str = "") -> GeoFile:
    """What a file says; a feature's class is its property of this name, or without one `one_class`.

    Raises DataError that names the feature.
    """
    content = read_json(path)
    entries = content.get("features") if isinstance(content, dict) else None
    if not isinstance(entries, list) or content.get("type") != "FeatureCollection":
        raise DataError(f"{path}: is no FeatureCollection with a list 'features', as GeoJSON has; save it as one")
    left_out = Counter[str]()
    features = []
    for number, entry in enumerate(entries, 1):
        try:
            polygons, others = _polygons(_geometry(entry))
            if polygons:
                features.append(Feature(_class(entry, class_property, one_class), polygons))
            left_out.update(others)
        except ValueError as error:
            raise DataError(f"{path}: feature {number} {error}; correct or remove it") from None
    return GeoFile(features, _code(path, content), left_out)


def _code(path: Path, content: dict[str, Any]) -> int | None:
    given = content.get("crs")
    if given is None:
        return None
    properties = given.get("properties") if isinstance(given, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    text = name if isinstance(name, str) else ""
    if match := _EPSG.fullmatch(text.strip()):
        return int(match[1])
    if _CRS84.fullmatch(text.strip()):
        return CRS84
    raise DataError(
        f"{path}: names the coordinate system {shown(name)}, expected a code such as urn:ogc:def:crs:EPSG::32633; "
        "save it in that of the images"
    )


def _geometry(entry: Any) -> Any:
    if not isinstance(entry, dict) or entry.get("type") != "Feature":
        raise ValueError(f"is {shown(entry)}, expected one with type Feature")
    return entry.get("geometry")


def _class(entry: dict[str, Any], class_property: str | None, one_class: str) -> str:
    if class_property is None:
        return one_class
    properties = entry.get("properties")
    held = properties if isinstance(properties, dict) else {}
    name = name_of(held.get(class_property))
    if name is None:
        names = ", ".join(map(str, list(held)[:8])) or "none"
        value = f"is {shown(held[class_property])}" if class_property in held else f"is not there (it has {names})"
        raise ValueError(f"has no class: data.class_property={class_property} {value}")
    return name


def _polygons(geometry: Any) -> tuple[list[Polygon], list[str]]:
    """The polygons of a geometry, and the types of the parts that are none."""
    polygons, others = [], []
    for kind, given in _parts(geometry, 0):
        if kind == "Polygon":
            polygons.append(_polygon(given))
        elif kind == "MultiPolygon":
            if not isinstance(given, list):
                raise ValueError("has a MultiPolygon that is no list")
            polygons += [_polygon(part) for part in given]
        else:
            others.append(kind)
    return polygons, others


def _parts(geometry: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Type and coordinates of a geometry, or of all in a collection."""
    if geometry is None:
        yield "null", None
        return
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind in ("Polygon", "MultiPolygon", "Point", "MultiPoint", "LineString", "MultiLineString"):
        yield kind, geometry.get("coordinates")
        return
    parts = geometry.get("geometries") if kind == "GeometryCollection" else None
    if not isinstance(parts, list) or depth > _DEEPEST:
        raise ValueError(f"has the geometry {shown(geometry)}, expected a Polygon or MultiPolygon")
    for part in parts:
        yield from _parts(part, depth + 1)


def _polygon(given: Any) -> Polygon:
    if not isinstance(given, list) or not given:
        raise ValueError("has a Polygon that is no list of rings")
    rings = [point_array(ring, np.inf) for ring in given]
    if any(len(ring) < 3 for ring in rings):
        raise ValueError("has a Polygon with a ring of less than three points")
    return rings
