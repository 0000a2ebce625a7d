"""Pixels of polygons and of run lengths, within a window only."""

from collections.abc import Iterator

import numpy as np

from hires.interfaces import Window

_OFFSET, _BITS, _MORE, _SIGN = 48, 5, 32, 16  # of the characters that COCO writes run lengths with
_CROSSINGS = 2**20  # of edges with rows, at once
_LONGEST = 12  # characters of a number that fits into 64 bits


def polygon_pixels(ring: np.ndarray, window: Window) -> np.ndarray:
    """(h, w) bool: the pixels of a window whose centres lie in a polygon, by the even-odd rule.

    `ring`: (P, 2) x y, pixel i reaching from i to i + 1; it closes by itself.
    """
    x, y = ring.T.astype(np.float64) - np.array([[window.x], [window.y]]) - 0.5  # centres are whole numbers now
    x_end, y_end = np.roll(x, -1), np.roll(y, -1)
    # downwards all, so that an edge that is passed there and back crosses the same pixels, and vanishes
    down = y <= y_end
    x, x_end = np.where(down, x, x_end), np.where(down, x_end, x)
    y, y_end = np.where(down, y, y_end), np.where(down, y_end, y)
    top = np.clip(np.ceil(y), 0, window.height).astype(np.int64)
    bottom = np.clip(np.ceil(y_end), 0, window.height).astype(np.int64)
    crossings = np.zeros((window.height, window.width + 1), np.uint8)
    for part in _parts(bottom - top):
        edges = np.repeat(np.arange(len(x))[part], (bottom - top)[part])
        before = np.cumsum((bottom - top)[part]) - (bottom - top)[part]
        rows = np.arange(len(edges)) - before[edges - part.start] + top[edges]
        slopes = (x_end - x)[edges] / (y_end - y)[edges]
        columns = np.clip(np.ceil(x[edges] + (rows - y[edges]) * slopes), 0, window.width).astype(np.int64)
        np.add.at(crossings, (rows, columns), 1)
    return np.bitwise_xor.accumulate(crossings & 1, axis=1)[:, :-1].astype(bool)


def _parts(lengths: np.ndarray) -> Iterator[slice]:
    """Of edges that cross so many rows, those that are looked at together: a file may give any number of edges."""
    ends, first = np.cumsum(lengths), 0
    while first < len(lengths):
        passed = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, passed + _CROSSINGS, "right")))
        yield slice(first, last)
        first = last


def run_pixels(runs: np.ndarray, height: int, window: Window) -> np.ndarray:
    """(h, w) bool: the pixels of a window that a mask of alternating run lengths sets.

    `runs`: (R,) of pixels off, on, off, …, column by column of a mask that is `height` high; the last ones may be
    left out where they are off.
    """
    ends = np.cumsum(runs, dtype=np.int64)
    low, high = window.x * height, (window.x + window.width) * height
    lengths = np.clip(ends, low, high) - np.clip(ends - runs, low, high)
    columns = np.zeros(window.width * height, bool)
    columns[: lengths.sum()] = np.repeat(np.arange(len(runs)) % 2 == 1, lengths)
    return columns.reshape(window.width, height)[:, window.y : window.y + window.height].T


def run_columns(runs: np.ndarray, height: int) -> tuple[int, int]:
    """The first column with a pixel that is on, and the one after the last; (0, 0) without any."""
    ends = np.cumsum(runs, dtype=np.int64)
    on = np.flatnonzero(runs[1::2]) * 2 + 1
    if not len(on):
        return 0, 0
    return int(ends[on[0] - 1] // height), int((ends[on[-1]] - 1) // height) + 1


def decoded_runs(text: str) -> np.ndarray:
    """(R,) int64 run lengths of COCO's compressed form. Raises ValueError.

    Each number is some characters of five bits, the lowest first, with a sign; from the fourth on it is the
    difference to the run before the last.
    """
    codes = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int64) - _OFFSET
    final = codes & _MORE == 0
    if not len(codes) or codes.min() < 0 or codes.max() >= 2 * _MORE or not final[-1]:
        raise ValueError("is no run length encoding")
    starts = np.concatenate([[0], np.flatnonzero(final)[:-1] + 1])
    sizes = np.diff(starts, append=len(codes))
    if sizes.max() > _LONGEST:
        raise ValueError("has too long a run")
    places = np.arange(len(codes)) - np.repeat(starts, sizes)
    numbers = np.add.reduceat((codes & _MORE - 1) << _BITS * places, starts)
    numbers -= np.where(codes[final] & _SIGN, np.int64(1) << _BITS * sizes, 0)
    numbers[1::2] = np.cumsum(numbers[1::2])
    numbers[2::2] = np.cumsum(numbers[2::2])
    return numbers
