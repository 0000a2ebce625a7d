"""The outlines of masks along the edges of their pixels, so that they enclose just these pixels."""

import cv2
import numpy as np

_RIGHT, _DOWN, _LEFT, _UP = range(4)
_STEPS = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])  # x, y

Polygon = list[np.ndarray]
"""Rings (P, 2) x y of corners of pixels: the border, then the holes."""


def polygons_of(mask: np.ndarray) -> list[Polygon]:
    """A polygon for each part of a mask (H, W) bool; pixels that only touch at a corner are apart."""
    count, parts = cv2.connectedComponents(mask.astype(np.uint8), connectivity=4)
    polygons = []
    for number in range(1, count):
        rows, columns = np.flatnonzero((parts == number).any(1)), np.flatnonzero((parts == number).any(0))
        y, x = rows[0], columns[0]
        rings = _rings(parts[y : rows[-1] + 1, x : columns[-1] + 1] == number)
        rings.sort(key=lambda ring: -abs(signed_area(ring)))
        polygons.append([ring + (x, y) for ring in rings])
    return polygons


def signed_area(ring: np.ndarray) -> float:
    """What a ring encloses: positive where it turns from the x axis to the y axis."""
    x, y = (ring - ring[0]).T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def _rings(mask: np.ndarray) -> list[np.ndarray]:
    """All rings, the mask on their right as one sees it."""
    following: dict[tuple[int, int], list[int]] = {}
    for direction, starts in enumerate(_edges(np.pad(mask, 1))):
        for x, y in starts.tolist():
            following.setdefault((x, y), []).append(direction)
    rings = []
    while following:
        start = next(iter(following))
        rings.append(_walk(following, start))
    return rings


def _edges(padded: np.ndarray) -> list[np.ndarray]:
    """For each direction the corners (E, 2) x y where an edge of it starts."""
    inside = padded[1:-1, 1:-1]
    outside = {
        _RIGHT: ~padded[:-2, 1:-1],
        _DOWN: ~padded[1:-1, 2:],
        _LEFT: ~padded[2:, 1:-1],
        _UP: ~padded[1:-1, :-2],
    }
    corners = {_RIGHT: (0, 0), _DOWN: (1, 0), _LEFT: (1, 1), _UP: (0, 1)}  # of the pixel
    return [np.argwhere(inside & outside[d])[:, ::-1] + corners[d] for d in range(4)]


def _walk(following: dict[tuple[int, int], list[int]], start: tuple[int, int]) -> np.ndarray:
    """The corners of one ring, whose edges are taken out of `following`."""
    at, before, points = start, -1, []
    while at in following:
        choices = following[at]
        turn = (before + 1) % 4  # to the right: around the same pixel
        direction = turn if len(choices) > 1 and turn in choices else choices[0]
        choices.remove(direction)
        if not choices:
            del following[at]
        if direction != before:
            points.append(at)
        step = _STEPS[direction]
        at, before = (at[0] + int(step[0]), at[1] + int(step[1])), direction
        if at == start:
            break
    return np.array(points, np.float64)
