"""Reads labelme's JSON files, one an image."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hires.data.label_json import name_of, point_array, read_json, shown
from hires.data.outlines import circle_ring, rectangle_ring
from hires.interfaces import DataError

_WITHOUT_AREA = ("line", "linestrip", "point", "points")
_NOT_READ = ("mask",)


class Shape(NamedTuple):
    """One object: shapes of one label and group are parts of the same."""

    name: str
    rings: tuple[np.ndarray, ...]  # each (P, 2) x y, pixels


class LabelmeFile(NamedTuple):
    """What one file says."""

    size: tuple[int, int] | None  # (height, width) of the image, pixels
    shapes: list[Shape]
    left_out: Counter[str]  # shapes that have no outline, by their kind


def read_labelme(path: Path) -> LabelmeFile:
    """What a file says. Raises DataError that names the shape."""
    content = read_json(path)
    given = content.get("shapes") if isinstance(content, dict) else None
    if not isinstance(given, list):
        raise DataError(f"{path}: has no list 'shapes', which labelme's files have; narrow data.annotations")
    shapes, left_out = list[Shape](), Counter[str]()
    grouped: dict[tuple[str, str], int] = {}
    for number, entry in enumerate(given, 1):
        shape, group = _shape(path, number, entry, left_out)
        if shape is None:
            continue
        at = grouped.setdefault((shape.name, group), len(shapes)) if group else len(shapes)
        if at < len(shapes):
            shapes[at] = Shape(shape.name, shapes[at].rings + shape.rings)
        else:
            shapes.append(shape)
    return LabelmeFile(_size(content), shapes, left_out)


def _size(content: dict[str, Any]) -> tuple[int, int] | None:
    height, width = content.get("imageHeight"), content.get("imageWidth")
    return (height, width) if type(height) is int and type(width) is int and height > 0 < width else None


def _shape(path: Path, number: int, entry: Any, left_out: Counter[str]) -> tuple[Shape | None, str]:
    """A shape, None where it has no outline, and its group, or ""."""
    place = f"{path}: shape {number}"
    if not isinstance(entry, dict):
        raise DataError(f"{place}: is {shown(entry)}, expected keys with values")
    name = name_of(entry.get("label"))
    if name is None:
        raise DataError(f"{place}: has no label; give it one, or remove it")
    kind = entry.get("shape_type") or "polygon"  # old files do not say it
    if kind in _WITHOUT_AREA or kind in _NOT_READ:
        left_out[str(kind)] += 1
        return None, ""
    try:
        ring = _ring(kind, entry.get("points"))
    except ValueError as error:
        raise DataError(f"{place} ({name}): {error}; correct or remove it") from None
    group = entry.get("group_id")
    return Shape(name, (ring,)), "" if group is None else shown(group)


def _ring(kind: Any, given: Any) -> np.ndarray:
    points = point_array(given)
    if kind == "polygon" or (kind == "rectangle" and len(points) == 4):  # turned ones have four corners
        if len(points) < 3:
            raise ValueError(f"has a polygon of {len(points)} point(s), expected 3 or more")
        return points
    if kind not in ("rectangle", "circle"):
        raise ValueError(f"has shape_type {shown(kind)}, expected polygon, rectangle or circle")
    if len(points) != 2:
        raise ValueError(f"has a {kind} of {len(points)} point(s), expected 2")
    if kind == "rectangle":
        return rectangle_ring(points[0], points[1])
    return circle_ring(points[0], float(np.hypot(*(points[1] - points[0]))))
