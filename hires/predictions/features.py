"""Detections as GeoJSON (RFC 7946), with the member `crs` of its draft of 2008 where coordinates are of a map."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hires.data.geo_tiff import Georeference, transformed
from hires.data.geojson import CRS84
from hires.data.outlines import rectangle_ring
from hires.ops.boxes import Detections
from hires.ops.instances import InstanceMask
from hires.predictions.outlines import Polygon, polygons_of, signed_area


def feature_collection(
    place: Georeference, found: Detections, masks: Sequence[InstanceMask], names: Sequence[str]
) -> dict[str, Any]:
    """A feature for each detection, in the coordinate system of the image, with the properties class and score.

    Its geometry is the outline of the mask or, without masks, the rectangle of the box.
    """
    features = []
    boxes, labels = found.boxes.cpu().double().numpy(), found.labels.cpu().tolist()
    for index, (box, label) in enumerate(zip(boxes, labels, strict=True)):
        polygons = _of_mask(masks[index]) if masks else [[rectangle_ring(box[:2], box[2:])]]
        if polygons:
            properties = {"class": names[label], "score": float(found.scores[index])}
            features.append({"type": "Feature", "properties": properties, "geometry": _geometry(polygons, place)})
    system: dict[str, Any] = {}
    if place.epsg and place.epsg != CRS84:
        system = {"crs": {"type": "name", "properties": {"name": f"urn:ogc:def:crs:EPSG::{place.epsg}"}}}
    return {"type": "FeatureCollection", **system, "features": features}


def _of_mask(instance: InstanceMask) -> list[Polygon]:
    return [[ring + (instance.x, instance.y) for ring in polygon] for polygon in polygons_of(instance.mask)]


def _geometry(polygons: list[Polygon], place: Georeference) -> dict[str, Any]:
    placed = [
        [_closed(transformed(ring, place.to_map), hole=bool(number)) for number, ring in enumerate(polygon)]
        for polygon in polygons
    ]
    if len(placed) == 1:
        return {"type": "Polygon", "coordinates": placed[0]}
    return {"type": "MultiPolygon", "coordinates": placed}


def _closed(ring: np.ndarray, hole: bool) -> list[list[float]]:
    """The ring with its first point again at the end: borders counterclockwise, holes clockwise."""
    turned = ring[::-1] if (signed_area(ring) < 0) != hole else ring
    points: list[list[float]] = np.concatenate([turned, turned[:1]]).tolist()
    return points
