"""Masks of single objects as an annotation file describes them, packed; pixels are made of them on demand."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hires.data.label_json import FURTHEST, shown
from hires.data.rasterize import decoded_runs, polygon_pixels, run_columns, run_pixels
from hires.interfaces import Window
from hires.ops.instances import InstanceMask


class Segment(NamedTuple):
    """One object: polygons, or the run lengths of its mask, pixels off, on, off, …, column by column."""

    rings: tuple[np.ndarray, ...]  # each (P, 2) float32 x y
    runs: np.ndarray  # (R,) uint32, none where there are rings
    height: int  # of the mask with those runs


_NO_RUNS = np.zeros(0, np.uint32)


def parsed(given: Any, size: tuple[int, int]) -> Segment:
    """A COCO segmentation of an image of this (height, width). Raises ValueError that says what is wrong."""
    if isinstance(given, list) and given:
        return Segment(tuple(_ring(ring) for ring in given), _NO_RUNS, size[0])
    if not isinstance(given, dict) or "counts" not in given:
        raise ValueError("has no segmentation")
    counts = given["counts"]
    if given.get("size") != list(size):
        raise ValueError(f"has a mask of {shown(given.get('size'))} (height, width), its image is {list(size)}")
    runs = decoded_runs(counts) if isinstance(counts, str) else _numbers(counts, np.int64)
    if runs.ndim != 1 or _outside(runs, size) or runs.sum() != size[0] * size[1]:
        raise ValueError(f"has run lengths that do not add up to {size[0]} x {size[1]} pixels")
    return Segment((), runs.astype(np.uint32), size[0])


def _outside(runs: np.ndarray, size: tuple[int, int]) -> bool:
    return bool(((runs < 0) | (runs > size[0] * size[1])).any())


def _ring(given: Any) -> np.ndarray:
    values = _numbers(given, np.float64)
    if values.ndim != 1 or len(values) < 6 or len(values) % 2 or not np.isfinite(values).all():
        raise ValueError("has a polygon that is no list of x, y of three points or more")
    if (np.abs(values) > FURTHEST).any():
        raise ValueError("has a polygon that reaches far outside of any image")
    return values.astype(np.float32).reshape(-1, 2)


def ring_segment(rings: Sequence[np.ndarray], height: int) -> Segment:
    """An object of polygons, each (P, 2) x y, in an image of this height; their areas add up."""
    return Segment(tuple(ring.astype(np.float32) for ring in rings), _NO_RUNS, height)


def run_segment(starts: np.ndarray, lengths: np.ndarray, height: int) -> Segment:
    """An object of pixels that follow each other column by column: where each run starts, and its length."""
    ends = starts + lengths
    gaps = starts - np.concatenate([[0], ends[:-1]])
    return Segment((), np.stack([gaps, lengths], axis=1).astype(np.uint32).ravel(), height)


def _numbers(given: Any, kind: type) -> np.ndarray:
    """An array of numbers, an empty one of what holds none."""
    try:
        return np.array(given, kind)
    except (ValueError, TypeError, OverflowError):
        return np.zeros(0, kind)


class _Ragged(NamedTuple):
    """Rows of different lengths, one after the other, and where each begins."""

    values: np.ndarray
    offsets: np.ndarray

    def row(self, index: int) -> np.ndarray:
        return self.values[self.offsets[index] : self.offsets[index + 1]]


def _ragged(rows: Sequence[np.ndarray], empty: np.ndarray) -> _Ragged:
    return _Ragged(np.concatenate([empty, *rows]), _ends(len(row) for row in rows))


def _ends(lengths: Iterable[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64))]).astype(np.int64)


class Segments:
    """The segments of many objects in flat arrays, which worker processes share."""

    def __init__(self, segments: Sequence[Segment]):
        rings = [ring for segment in segments for ring in segment.rings]
        self._rings = _ragged(rings, np.zeros((0, 2), np.float32))
        self._first_rings = _ends(len(segment.rings) for segment in segments)
        self._runs = _ragged([segment.runs for segment in segments], _NO_RUNS)
        self._heights = np.array([segment.height for segment in segments], np.int64)
        self._members = np.arange(len(segments))

    def take(self, which: np.ndarray) -> "Segments":
        """Those of an index array; the flat arrays stay the same."""
        part = object.__new__(Segments)
        part.__dict__.update(self.__dict__, _members=self._members[which])
        return part

    def kinds(self) -> np.ndarray:
        """(N,) int64, equal for objects that are described by the same polygons or run lengths."""
        numbers: dict[tuple[bytes, ...], int] = {}
        described = self.described(np.arange(len(self._members)))
        return np.array([numbers.setdefault(text, len(numbers)) for text in described], np.int64)

    def described(self, rows: np.ndarray) -> Iterator[tuple[bytes, ...]]:
        """The polygons or run lengths of objects, as they lie in memory."""
        return (self._described(int(self._members[row])) for row in rows)

    def _described(self, member: int) -> tuple[bytes, ...]:
        rings = range(self._first_rings[member], self._first_rings[member + 1])
        return (*(self._rings.row(ring).tobytes() for ring in rings), self._runs.row(member).tobytes())

    def masks(self, rows: np.ndarray, window: Window) -> np.ndarray:
        """(N,) InstanceMask in pixels of the window, clipped to it; an empty one where the object is elsewhere."""
        masks = np.empty(len(rows), object)
        for position, row in enumerate(rows):
            masks[position] = self._mask(int(self._members[row]), window)
        return masks

    def _mask(self, member: int, window: Window) -> InstanceMask:
        rings = range(self._first_rings[member], self._first_rings[member + 1])
        part = _common(self._extent(member, rings), window)
        if rings:
            pixels = np.logical_or.reduce([polygon_pixels(self._rings.row(ring), part) for ring in rings])
        else:
            pixels = run_pixels(self._runs.row(member), int(self._heights[member]), part)
        return _tight(pixels, part.y - window.y, part.x - window.x)

    def _extent(self, member: int, rings: range) -> Window:
        if not rings:
            height = int(self._heights[member])
            left, right = run_columns(self._runs.row(member), height)
            return Window(0, left, height, right - left)
        points = self._rings.values[self._rings.offsets[rings.start] : self._rings.offsets[rings.stop]]
        left, top = np.floor(points.min(axis=0)).astype(int)
        right, bottom = np.ceil(points.max(axis=0)).astype(int)
        return Window(int(top), int(left), int(bottom - top), int(right - left))


def _common(one: Window, other: Window) -> Window:
    y, x = max(one.y, other.y), max(one.x, other.x)
    bottom = min(one.y + one.height, other.y + other.height)
    right = min(one.x + one.width, other.x + other.width)
    return Window(y, x, max(0, bottom - y), max(0, right - x))


def _tight(pixels: np.ndarray, y: int, x: int) -> InstanceMask:
    """A mask without empty rows and columns around it; its given upper left pixel is (y, x)."""
    rows, columns = np.flatnonzero(pixels.any(axis=1)), np.flatnonzero(pixels.any(axis=0))
    if not len(rows):
        return InstanceMask(0, 0, np.zeros((0, 0), bool))
    inside = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return InstanceMask(y + int(rows[0]), x + int(columns[0]), inside.copy())
