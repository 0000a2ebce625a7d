"""Reads CSV files with a box a row: `path,x1,y1,x2,y2,label`."""

import csv
from array import array
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.box_lists import path_below
from hires.data.formats.image_file import read_bytes
from hires.data.label_json import check_near, name_of, shown
from hires.interfaces import DataError

COLUMNS = ("path", "x1", "y1", "x2", "y2", "label")
_ALIASES = {
    "path": ("path", "file", "filename", "file_name", "image", "image_path", "img_path", "imagepath"),
    "x1": ("x1", "xmin", "x_min", "left"),
    "y1": ("y1", "ymin", "y_min", "top"),
    "x2": ("x2", "xmax", "x_max", "right"),
    "y2": ("y2", "ymax", "y_max", "bottom"),
    "label": ("label", "class", "class_name", "category", "label_name"),
}
_DELIMITERS = ",;\t"
_LONGEST_FIELD = 2**17  # characters, more than any path


class CsvFile(NamedTuple):
    """What one file says: its images in order, and the objects in order of the rows."""

    paths: list[str]  # relative to the data set's root, each once
    names: list[str]  # of the classes, in order of the rows
    homes: np.ndarray  # (M,) int64 index of the image
    boxes: np.ndarray  # (M, 4) float64 x1 y1 x2 y2, pixels
    classes: np.ndarray  # (M,) int64 index of the name


def read_csv(path: Path, folder: str, root: Path) -> CsvFile:
    """A whole file, with or without a header; `folder`, relative to `root`, is where relative paths begin.

    A row with nothing but a path is an image without objects. Raises DataError that names the line.
    """
    text = _text(path)
    reader = csv.reader(StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    images, names, homes, labels, boxes = dict[str, int](), dict[str, int](), array("q"), array("q"), array("d")
    places: list[int] | None = None
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if places is None:
                places = _header(row)
                if places:
                    continue
                places = list(range(len(COLUMNS)))
            image, box, label = _row([cell.strip() for cell in row], places, folder, root)
            home = images.setdefault(image, len(images))
            if box is not None:
                boxes.extend(box)
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


def _header(row: list[str]) -> list[int]:
    """Where the columns are, by a header; an empty list where the row is none. Raises ValueError."""
    cells = [cell.strip().lower() for cell in row]
    found = {name: [at for at, cell in enumerate(cells) if cell in known] for name, known in _ALIASES.items()}
    if not any(found[name] for name in COLUMNS[1:5]):
        if len(row) != len(COLUMNS):
            raise ValueError(
                f"{len(row)} column(s), expected {','.join(COLUMNS)}, or a header that names those among others"
            )
        return []
    for name, places in found.items():
        if len(places) != 1:
            problem = "no column" if not places else f"{len(places)} columns"
            raise ValueError(f"the header has {problem} for {name}; call one of them {name}")
    return [found[name][0] for name in COLUMNS]


def _row(
    cells: list[str], places: list[int], folder: str, root: Path
) -> tuple[str, tuple[float, ...] | None, str]:
    """The image's path, the box, None without one, and the label of a row. Raises ValueError."""
    if len(cells) <= max(places):
        raise ValueError(f"{len(cells)} column(s), expected {max(places) + 1}: {','.join(COLUMNS)}")
    path, *corners, label = (cells[at] for at in places)
    if not path:
        raise ValueError("has no path")
    try:
        image = path_below(path, folder, root)
    except ValueError as error:
        raise ValueError(f"has the path {error}") from None
    if not any(corners) and not label:
        return image, None, ""
    name = name_of(label)
    if name is None:
        raise ValueError("has a box without label; an image without objects has nothing but its path")
    return image, _box(corners), name


def _box(corners: list[str]) -> tuple[float, ...]:
    try:
        box = tuple(map(float, corners))
    except ValueError:
        raise ValueError(f"{shown(corners)} are not four numbers, x1 y1 x2 y2") from None
    if not check_near(box):
        raise ValueError(f"{shown(corners)} are no pixels of an image")
    return box
