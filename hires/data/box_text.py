"""Text files with a class and four numbers a line."""

import math
from pathlib import Path

import numpy as np

from hires.data.formats.image_file import read_bytes
from hires.data.label_json import shown
from hires.interfaces import DataError

_COLUMNS = 5
_HIGHEST = 2**31 - 1  # number of a class


def read_rows(path: Path, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, 5) float64 of a file's lines, separated by blanks or commas, and their line numbers from 1, (N,).

    `layout` says in messages what a line holds. Raises DataError that names the line.
    """
    rows, numbers = [], []
    for number, line in enumerate(_text(path).splitlines(), 1):
        values = line.replace(",", " ").split()
        if values:
            rows.append(_parsed(values, f"{path}:{number}", layout))
            numbers.append(number)
    return np.array(rows, np.float64).reshape(-1, _COLUMNS), np.array(numbers, np.int64)


def class_numbers(path: Path, values: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """(N,) int64 of a column of class ids. Raises DataError for what is no whole number."""
    wrong = np.flatnonzero((values != np.round(values)) | (values < 0) | (values > _HIGHEST))
    if len(wrong):
        raise DataError(
            f"{path}:{lines[wrong[0]]}: class {values[wrong[0]]:g} is no whole number from 0 to {_HIGHEST}"
        )
    return values.astype(np.int64)


def looks_like_rows(path: Path) -> bool:
    """Whether the first line of a file is one of labels."""
    try:
        with path.open("rb") as file:
            first = file.read(200).decode("utf-8-sig", "replace").strip().splitlines()[:1]
        return len([float(value) for line in first for value in line.replace(",", " ").split()]) == _COLUMNS
    except (OSError, ValueError):
        return False


def _text(path: Path) -> str:
    if path.is_file() and path.stat().st_size == 0:  # an image without objects
        return ""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no text ({error.reason}); labels are lines of numbers") from None


def _parsed(values: list[str], place: str, layout: str) -> list[float]:
    if len(values) != _COLUMNS:
        raise DataError(f"{place}: {len(values)} value(s), expected {_COLUMNS}: {layout}")
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        raise DataError(f"{place}: {shown(' '.join(values))} are not all numbers, expected {layout}") from None
    if not all(map(math.isfinite, numbers)):
        raise DataError(f"{place}: {shown(' '.join(values))} are not all finite, expected {layout}")
    return numbers
