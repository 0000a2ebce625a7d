"""Rings of points (P, 2) x y, which close by themselves: circles, holes, parts within an image."""

import math
from collections.abc import Sequence

import numpy as np

_DEVIATION = 0.1  # pixels that a circle's polygon may differ from it
_CORNERS = (12, 720)  # fewest and most of such a polygon


def circle_ring(centre: np.ndarray, radius: float) -> np.ndarray:
    """A polygon that differs from a circle by a tenth of a pixel, as long as it needs no more than 720 corners."""
    needed = math.pi / math.acos(1 - min(_DEVIATION / radius, 1)) if radius > 0 else 0
    angles = np.linspace(0, 2 * math.pi, int(np.clip(math.ceil(needed), *_CORNERS)), endpoint=False)
    return centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def rectangle_ring(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The rectangle between two opposite corners."""
    (x1, y1), (x2, y2) = one, other
    return np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]], np.float64)


def ring_area(ring: np.ndarray) -> float:
    """What a ring encloses, in the unit of its coordinates squared, by the shoelace formula."""
    if len(ring) < 3:
        return 0.0
    x, y = (ring[1:] - ring[0]).T  # the edges at the first point add nothing
    return abs(float(x[:-1] @ y[1:] - y[:-1] @ x[1:])) / 2


def with_holes(rings: Sequence[np.ndarray]) -> np.ndarray:
    """One ring that encloses, by the even-odd rule, what the first does and the others do not.

    The ways to the others and back lie on each other, so that no pixel is on one side of only one of them.
    """
    if len(rings) == 1:
        return rings[0]
    start = rings[0][:1]
    parts = [rings[0], start]
    for hole in rings[1:]:
        parts += [hole, hole[:1], start]
    return np.concatenate(parts)


def clipped_ring(ring: np.ndarray, width: float, height: float) -> np.ndarray:
    """The part of a ring within 0..width, 0..height, none or more points (I. Sutherland, G. Hodgman, 1974).

    Parts that are apart stay joined along the border, where they enclose nothing.
    """
    if ring.min() >= 0 and (ring.max(axis=0) <= (width, height)).all():
        return ring
    for axis, bound, sign in ((0, 0.0, 1), (0, width, -1), (1, 0.0, 1), (1, height, -1)):
        ring = _half(ring, axis, bound, sign)
    return ring


def _half(ring: np.ndarray, axis: int, bound: float, sign: int) -> np.ndarray:
    depth = (ring[:, axis] - bound) * sign
    inside = depth >= 0
    if inside.all():
        return ring
    order = np.arange(1, len(ring) + 1)
    order[-1:] = 0
    following, depth_there = ring[order], depth[order]
    crosses = inside != inside[order]
    share = np.divide(depth, depth - depth_there, out=np.zeros(len(ring)), where=crosses)
    crossings = ring + share[:, None] * (following - ring)
    crossings[:, axis] = bound
    points = np.stack([ring, crossings], axis=1).reshape(-1, 2)
    return points[np.stack([inside, crosses], axis=1).ravel()]


def ring_box(rings: Sequence[np.ndarray]) -> tuple[float, float, float, float]:
    """x1 y1 x2 y2 around rings."""
    points = np.concatenate(rings)
    (x1, y1), (x2, y2) = points.min(axis=0), points.max(axis=0)
    return float(x1), float(y1), float(x2), float(y2)
