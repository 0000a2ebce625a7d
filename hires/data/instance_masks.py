"""Finds the objects of a mask whose values are numbers of objects: where each one's pixels are."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from hires.data.colours import colour_bands
from hires.data.images import image_size, mask_bands
from hires.data.segments import Segment, run_segment
from hires.interfaces import DataError

_BAND = 512  # rows, or columns
_MOST_RUNS = 2**24  # of one mask: 512 MiB
_MOST_OBJECTS = 100_000


class InstanceObjects(NamedTuple):
    """The objects of one mask, in order of their numbers."""

    ids: np.ndarray  # (N,) int64
    boxes: np.ndarray  # (N, 4) float64 x1 y1 x2 y2, pixels
    areas: np.ndarray  # (N,) int64 pixels
    runs: np.ndarray  # (R, 4) int64 object, id, start, length; pixels counted column by column
    height: int  # of the mask

    def segments(self, which: Sequence[int] | np.ndarray) -> Iterator[Segment]:
        """The pixels of some objects."""
        first = np.searchsorted(self.runs[:, 0], np.arange(len(self.ids) + 1))
        for index in which:
            _, _, starts, lengths = self.runs[first[index] : first[index + 1]].T
            yield run_segment(starts, lengths, self.height)


class Reading(NamedTuple):
    """How the values of a mask become objects."""

    coded: bool = False  # ids are colours, red + 256 green + 65536 blue, else values or palette indices
    threshold: float | None = None  # higher values become 255, others 0
    background: tuple[int, ...] = (0,)
    apart: bool = False  # pixels of one id that do not touch, not even at corners, are several objects


def read_runs(path: Path, size: tuple[int, int], reading: Reading) -> np.ndarray:
    """The objects of a mask file as rows of int64 object, id, start, length: (R, 4).

    Raises DataError for a file that cannot be read, of another size than (height, width), or with more objects
    than a mask of objects has.
    """
    stored = image_size(path)  # before it is decoded: a header can promise any number of pixels
    if stored != size:
        raise DataError(
            f"{path}: mask is {stored[0]}x{stored[1]} (height x width), its image {size[0]}x{size[1]}; make them "
            "equal"
        )
    ids = _whole(_bands(path, reading), size)
    if ids.dtype.kind == "i" and ids.min() < 0:
        raise DataError(f"{path}: holds the negative value {ids.min()}; ids of objects count from 0")
    if not reading.apart:
        runs = _runs(path, ids, reading.background)
        numbers = np.unique(runs[:, 0], return_inverse=True)[1]
        return np.column_stack([numbers, runs])
    parts, owners = _apart(path, ids, _runs(path, ids, reading.background))
    runs = _runs(path, parts, (0,))
    return np.column_stack([runs[:, 0] - 1, owners[runs[:, 0] - 1], runs[:, 1:]])


def _bands(path: Path, reading: Reading) -> Iterator[np.ndarray]:
    """Bands of rows of ids."""
    if reading.coded:
        for band in colour_bands(path, _BAND):
            yield band >> 16 | band & 0xFF00 | (band & 0xFF) << 16
        return
    for band in mask_bands(path, _BAND, remedy="set data.ids=rgb, where the colour of an object is its id"):
        yield band if reading.threshold is None else np.where(band > reading.threshold, np.uint8(255), np.uint8(0))


def objects_of(runs: np.ndarray, size: tuple[int, int]) -> InstanceObjects:
    """Ids, boxes and areas of what `read_runs` gave of a mask of (height, width)."""
    height = size[0]
    numbers, ids, starts, lengths = runs.T
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if not len(firsts):
        return InstanceObjects(ids, np.zeros((0, 4)), lengths, runs, height)
    ends = starts + lengths
    left, right = starts // height, (ends - 1) // height + 1
    # a run that goes on in the next column covers the border of the image, above and below
    around = right - left > 1
    top, bottom = np.where(around, 0, starts % height), np.where(around, height, (ends - 1) % height + 1)
    low = [np.minimum.reduceat(values, firsts) for values in (left, top)]
    high = [np.maximum.reduceat(values, firsts) for values in (right, bottom)]
    boxes = np.stack([*low, *high], axis=1).astype(np.float64)
    return InstanceObjects(ids[firsts], boxes, np.add.reduceat(lengths, firsts), runs, height)


def _whole(bands: Iterator[np.ndarray], size: tuple[int, int]) -> np.ndarray:
    """(H, W) of bands, without holding them twice."""
    whole, top = np.zeros(size, np.uint8), 0
    for band in bands:
        whole = whole.astype(np.result_type(whole, band), copy=False)
        whole[top : top + len(band)] = band
        top += len(band)
    return whole


def _runs(path: Path, ids: np.ndarray, background: tuple[int, ...]) -> np.ndarray:
    """(R, 3) int64 id, start, length of all that is not background, by id, then start."""
    height, width = ids.shape
    found, count = [], 0
    for left in range(0, width, _BAND):
        flat = np.ascontiguousarray(ids[:, left : left + _BAND].T).ravel()
        starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
        lengths = np.diff(starts, append=len(flat))
        values = flat[starts].astype(np.int64)
        kept = ~np.isin(values, np.array(background, np.int64))
        found.append(np.column_stack([values, starts + left * height, lengths])[kept])
        count += len(found[-1])
        if count > _MOST_RUNS:
            _refuse(path)
    runs = np.concatenate(found)
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    if len(np.unique(runs[:, 0])) > _MOST_OBJECTS:
        _refuse(path)
    return runs


def _refuse(path: Path) -> None:
    raise DataError(
        f"{path}: has more than {_MOST_OBJECTS} objects, or as many borders as those have; is it a mask whose "
        "values are numbers of objects? Ids that are colours need data.ids=rgb"
    )


def _apart(path: Path, ids: np.ndarray, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(H, W) int32 number from 1 of what touches, 0 elsewhere, and the id of each, (N,)."""
    whole = objects_of(np.column_stack([np.unique(runs[:, 0], return_inverse=True)[1], runs]), ids.shape[:2])
    parts, owners = np.zeros(ids.shape, np.int32), [np.zeros(0, np.int64)]
    count = 0
    for value, (x1, y1, x2, y2) in zip(whole.ids, whole.boxes.astype(int), strict=True):
        inside = ids[y1:y2, x1:x2] == value
        number, labels = cv2.connectedComponents(inside.astype(np.uint8), connectivity=8)
        parts[y1:y2, x1:x2][inside] = labels[inside] + count
        owners.append(np.full(number - 1, value, np.int64))
        count += number - 1
        if count > _MOST_OBJECTS:
            _refuse(path)
    return parts, np.concatenate(owners)
