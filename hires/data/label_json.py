"""Reads JSON files of labels, and the points in them."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hires.data.formats.image_file import read_bytes
from hires.interfaces import DataError

FURTHEST = 1e7
"""Pixels: a coordinate beyond is an error of the file, and would not fit into what follows."""
_LONGEST = 60  # characters of a value in a message


def read_json(path: Path) -> Any:
    """The content of a file in UTF-8, -16 or -32, with or without a byte order mark.

    Raises DataError for what is no JSON, is nested too deeply, or gives a key of one object twice.
    """
    data = read_bytes(path)
    try:
        text = data.decode(json.detect_encoding(data))
        return json.loads(text, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no text ({error.reason} at byte {error.start}); save it in UTF-8") from None
    except RecursionError:
        raise DataError(f"{path}: is no JSON of labels (nested too deeply); save it again") from None
    except ValueError as error:
        raise DataError(f"{path}: is no JSON ({error}); save it again") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {twice[:40]!r} stands twice in one object")
    return content


def name_of(value: Any) -> str | None:
    """A class name: text, or the digits of a number; None for anything else, and for what cannot be written."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = int(value) if value.is_integer() else value
    try:
        name = str(value).strip()
        name.encode()
    except ValueError:  # half of a pair of surrogates, or more digits than Python writes
        return None
    return name or None


def shown(value: Any) -> str:
    """The beginning of a value for a message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested as deeply as could just be read; more digits than Python writes
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def point_array(given: Any, furthest: float = FURTHEST) -> np.ndarray:
    """(P, 2) float64 of a list of [x, y]; what follows in a point is left out. Raises ValueError."""
    if not isinstance(given, list):
        raise ValueError("has no list of points")
    points = _plain_points(given)
    if points is None:
        for point in given:
            if not _is_point(point):
                raise ValueError(f"has the point {shown(point)}, expected [x, y], two finite numbers")
        points = np.array([[float(x), float(y)] for x, y, *_ in given]).reshape(-1, 2)
    if (np.abs(points) > furthest).any():
        far = points[(np.abs(points) > furthest).any(axis=1)][0].tolist()
        raise ValueError(f"has the point {far}, which is far outside of any image")
    return points


def _plain_points(given: list[Any]) -> np.ndarray | None:
    """(P, 2) of finite points of one length, as nearly all are, without looking at each; None for others."""
    if set(map(type, given)) != {list} or len(set(map(len, given))) > 1 or len(given[0]) < 2:
        return None
    if not set(map(type, chain.from_iterable(given))) <= {int, float}:
        return None
    try:
        points = np.array(given, np.float64)[:, :2]
    except OverflowError:
        return None
    return points if np.isfinite(points).all() else None


def _is_point(given: Any) -> bool:
    return isinstance(given, list) and len(given) >= 2 and all(_is_finite(value) for value in given[:2])


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def check_near(numbers: Sequence[float]) -> bool:
    """Whether all are coordinates that an image can have."""
    return all(math.isfinite(number) and abs(number) <= FURTHEST for number in numbers)
