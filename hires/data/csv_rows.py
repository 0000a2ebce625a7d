"""Reads CSV files with a box a row: `path,x1,y1,x2,y2,label`, or other columns."""

import csv
from array import array
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.box_lists import path_below
from hires.data.csv_layout import COORDINATES, MOST, USUAL, Layout, header_places
from hires.data.formats.image_file import read_bytes
from hires.data.label_json import check_near, name_of, shown
from hires.interfaces import DataError

_DELIMITERS = ",;\t"
_LONGEST_FIELD = 2**17  # characters, more than any path


class CsvFile(NamedTuple):
    """What one file says: its images in order, and the objects in order of the rows."""

    paths: list[str]  # relative to the data set's root, each once
    names: list[str]  # of the classes, in order of the rows
    homes: np.ndarray  # (M,) int64 index of the image
    boxes: np.ndarray  # (M, 4) float64 as the layout says
    classes: np.ndarray  # (M,) int64 index of the name


def read_csv(path: Path, folder: str, root: Path, layout: Layout = USUAL) -> CsvFile:
    """A whole file, with or without a header; `folder`, relative to `root`, is where relative paths begin.

    A row with nothing but a path is an image without objects. Raises DataError that names the line.
    """
    text = _text(path)
    delimiter = _delimiter(text)
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    images, names, homes, labels, boxes = dict[str, int](), dict[str, int](), array("q"), array("q"), array("d")
    places: list[int] | None = None
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if places is None:
                places = header_places(row, layout)
                if places:
                    continue
                places = list(range(len(layout.columns)))
            image, corners, label = _row([cell.strip() for cell in row], places, folder, root, layout)
            home = images.setdefault(image, len(images))
            if corners:
                boxes.extend(_box(corners, layout, decimal_comma=delimiter != ","))
                homes.append(home)
                labels.append(names.setdefault(label, len(names)))
    except (ValueError, csv.Error) as error:
        raise DataError(f"{path}:{reader.line_num}: {error}") from None
    return CsvFile(
        *(list(images), list(names), np.array(homes, np.int64)),
        *(np.array(boxes, np.float64).reshape(-1, 4), np.array(labels, np.int64)),
    )


def _text(path: Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no text ({error.reason} at byte {error.start}); save it in UTF-8") from None


def _delimiter(text: str) -> str:
    """What separates most in the first line that is not empty."""
    first = text.lstrip().partition("\n")[0][:_LONGEST_FIELD]
    return max(_DELIMITERS, key=first.count)


def _row(
    cells: list[str], places: list[int], folder: str, root: Path, layout: Layout
) -> tuple[str, list[str], str]:
    """The image's path, the coordinates, none without a box, and the label of a row. Raises ValueError."""
    if len(cells) <= max(places):
        raise ValueError(f"{len(cells)} column(s), expected {max(places) + 1}: {','.join(layout.columns)}")
    path, *corners, label = (cells[at] for at in places)
    if not path:
        raise ValueError("has no path")
    try:
        image = path_below(path, folder, root)
    except ValueError as error:
        raise ValueError(f"has the path {error}") from None
    if not any(corners) and not label:
        return image, [], ""
    name = name_of(label)
    if name is None:
        raise ValueError("has a box without label; an image without objects has nothing but its path")
    return image, corners, name


def _box(cells: list[str], layout: Layout, *, decimal_comma: bool) -> tuple[float, ...]:
    try:
        box = tuple(float(cell.replace(",", ".") if decimal_comma else cell) for cell in cells)
    except ValueError:
        raise ValueError(f"{shown(cells)} are not four numbers, {' '.join(COORDINATES[layout.box])}") from None
    if not check_near(box):
        raise ValueError(f"{shown(cells)} are no pixels of an image")
    if max(map(abs, box)) > MOST[layout.units]:
        raise ValueError(f"{shown(cells)} are too large for data.units={layout.units} of the image's size")
    return box
