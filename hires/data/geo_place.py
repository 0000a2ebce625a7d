"""Puts the polygons of a map into the pixels of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.geo_tiff import Georeference, transformed
from hires.data.geojson import GeoFile
from hires.data.outlines import clipped_ring, ring_area, ring_box, with_holes
from hires.data.segments import Segment, ring_segment
from hires.interfaces import DataError

_SMALLEST = 1e-3  # pixels of a side: what is less only touches the image


class Placed(NamedTuple):
    """The part of a feature that an image shows."""

    name: str
    box: tuple[float, float, float, float]  # x1 y1 x2 y2, pixels
    share: float  # of the feature's area
    segment: Segment


class GeoFeatures:
    """The features of a file, and where each begins and ends on the map."""

    def __init__(self, path: Path, file: GeoFile):
        self.path, self.file = path, file
        self.bounds = np.array([feature.bounds() for feature in file.features]).reshape(-1, 4)

    def check_system(self, image: Path, place: Georeference) -> None:
        """Raises DataError where image and features name different coordinate systems."""
        if self.file.epsg and place.epsg and self.file.epsg != place.epsg:
            raise DataError(
                f"{self.path}: is in EPSG:{self.file.epsg}, its image {image} in EPSG:{place.epsg}; save it in "
                f"the latter, such as by ogr2ogr -t_srs EPSG:{place.epsg}"
            )

    def near(self, place: Georeference) -> np.ndarray:
        """Indices of the features whose rectangle on the map meets that of the image."""
        low_x, low_y, high_x, high_y = place.bounds()
        bounds = self.bounds
        meets = (bounds[:, 0] < high_x) & (bounds[:, 2] > low_x) & (bounds[:, 1] < high_y) & (bounds[:, 3] > low_y)
        return np.flatnonzero(meets)

    def within(self, place: Georeference) -> list[Placed]:
        """What an image shows of the features, in their order, clipped to it. Raises DataError."""
        found = (self._placed(int(index), place) for index in self.near(place))
        return [placed for placed in found if placed is not None]

    def _placed(self, index: int, place: Georeference) -> Placed | None:
        feature = self.file.features[index]
        whole, left, rings, borders = 0.0, 0.0, [], []
        for polygon in feature.polygons:
            pixels = [transformed(ring, place.to_pixels) for ring in polygon]
            if not all(np.isfinite(ring).all() for ring in pixels):
                raise DataError(f"{self.path}: feature {index + 1} reaches infinitely far; correct or remove it")
            inside = [clipped_ring(ring, place.size[1], place.size[0]) for ring in pixels]
            area = _area(pixels)
            whole += area
            left += area if all(part is ring for part, ring in zip(inside, pixels, strict=True)) else _area(inside)
            if len(inside[0]):
                borders.append(inside[0])
                rings.append(with_holes([inside[0], *(ring for ring in inside[1:] if len(ring))]))
        if not rings:
            return None
        box = ring_box(borders)
        if box[2] - box[0] < _SMALLEST or box[3] - box[1] < _SMALLEST:
            return None
        share = min(1.0, left / whole) if whole > 0 else 1.0
        return Placed(feature.name, box, share, ring_segment(rings, place.size[0]))


def check_meeting(features: GeoFeatures, places: Sequence[Georeference]) -> None:
    """Raises DataError if there are features, and no image meets any of them: they are of somewhere else."""
    bounds = features.bounds
    if not len(bounds) or any(len(features.near(place)) for place in places):
        return
    images = np.array([place.bounds() for place in places])
    raise DataError(
        f"{features.path}: none of {len(bounds)} feature(s) lies in any image: they reach over {_span(bounds)}, "
        f"the images over {_span(images)}; save it in the coordinate system of the images"
    )


def _span(bounds: np.ndarray) -> str:
    low_x, low_y = bounds[:, :2].min(axis=0)
    high_x, high_y = bounds[:, 2:].max(axis=0)
    return f"x {low_x:.10g} to {high_x:.10g}, y {low_y:.10g} to {high_y:.10g}"


def _area(rings: Sequence[np.ndarray]) -> float:
    border, *holes = map(ring_area, rings)
    return max(0.0, border - sum(holes))
