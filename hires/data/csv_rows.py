"""Reads CSV files with a box a row: `path,x1,y1,x2,y2,label`, or other columns."""

import csv
from array import array
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from hires.data.box_lists import path_below
from hires.data.images import read_bytes
from hires.data.label_json import FURTHEST, check_near, name_of, shown
from hires.interfaces import DataError

COORDINATES = {"xyxy": ("x1", "y1", "x2", "y2"), "xywh": ("x", "y", "w", "h"), "cxcywh": ("cx", "cy", "w", "h")}
"""Columns of a box by its form: corners, upper left corner and size, or centre and size."""
MOST = {"pixels": FURTHEST, "shares": 2.0, "percent": 200.0}
"""How large a coordinate can be, by its unit."""
_ALIASES = {
    "path": ("path", "file", "filename", "file_name", "image", "image_path", "img_path", "imagepath"),
    "x1": ("x1", "xmin", "x_min", "left"),
    "y1": ("y1", "ymin", "y_min", "top"),
    "x2": ("x2", "xmax", "x_max", "right"),
    "y2": ("y2", "ymax", "y_max", "bottom"),
    "x": ("x", "x1", "xmin", "x_min", "left"),
    "y": ("y", "y1", "ymin", "y_min", "top"),
    "cx": ("cx", "xc", "x_center", "x_centre", "center_x", "centre_x"),
    "cy": ("cy", "yc", "y_center", "y_centre", "center_y", "centre_y"),
    "w": ("w", "width", "box_width", "bbox_width"),
    "h": ("h", "height", "box_height", "bbox_height"),
    "label": ("label", "class", "class_name", "category", "label_name"),
}
_DELIMITERS = ",;\t"
_LONGEST_FIELD = 2**17  # characters, more than any path


class Layout(NamedTuple):
    """What the columns of a file are."""

    box: str = "xyxy"  # of COORDINATES
    units: str = "pixels"  # of MOST
    headers: Mapping[str, str] = MappingProxyType(
        {}
    )  # what a column is called, where that is not one of the usual

    @property
    def columns(self) -> tuple[str, ...]:
        return ("path", *COORDINATES[self.box], "label")


class CsvFile(NamedTuple):
    """What one file says: its images in order, and the objects in order of the rows."""

    paths: list[str]  # relative to the data set's root, each once
    names: list[str]  # of the classes, sorted
    homes: np.ndarray  # (M,) int64 index of the image
    boxes: np.ndarray  # (M, 4) float64 as the layout says
    classes: np.ndarray  # (M,) int64 index of the name


def read_csv(path: Path, folder: str, root: Path, layout: Layout = Layout()) -> CsvFile:  # noqa: B008
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
                places = _header(row, layout)
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
        list(images), *_sorted(names, np.array(homes), np.array(boxes).reshape(-1, 4), np.array(labels))
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


def _header(row: list[str], layout: Layout) -> list[int]:
    """Where the columns are, by a header; an empty list where the row is none. Raises ValueError."""
    cells = [cell.strip() for cell in row]
    found = {name: _columns_of(name, cells, layout) for name in layout.columns}
    if not any(found[name] for name in layout.columns[1:5]) and not layout.headers:
        if len(row) != len(layout.columns) and not (len(row) > 1 and _are_names(cells)):
            raise ValueError(
                f"{len(row)} column(s), expected {','.join(layout.columns)}, or a header that names those among "
                "others"
            )
        if len(row) == len(layout.columns) and not _are_names(cells[1:5]):
            return []
    for name, places in found.items():
        if len(places) > 1:
            raise ValueError(f"the header has {len(places)} columns for {name}; call one of them {name}")
    missing = [name for name, places in found.items() if not places]
    if missing:
        raise ValueError(
            f"the header has no column for {', '.join(missing)}; it has {', '.join(filter(None, cells))}: name "
            f"them in data.columns='{{{missing[0]}: NAME}}', or add them; data.box={layout.box} says what a box is"
        )
    return [found[name][0] for name in layout.columns]


def _columns_of(name: str, cells: list[str], layout: Layout) -> list[int]:
    """Where the header has a column: by the name that the layout has for it, else by the usual ones."""
    if name in layout.headers:
        wanted = layout.headers[name].strip()
        same = [at for at, cell in enumerate(cells) if cell == wanted]
        return same or [at for at, cell in enumerate(cells) if cell.lower() == wanted.lower()]
    taken = {header.strip().lower() for header in layout.headers.values()}
    known = [cell.lower() for cell in cells]
    return [at for at, cell in enumerate(known) if cell in _ALIASES[name] and cell not in taken]


def _are_names(cells: list[str]) -> bool:
    """Whether cells hold text, and none a number."""
    return any(cells) and not any(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


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


def corners_of(boxes: np.ndarray, layout: Layout, sizes: np.ndarray) -> np.ndarray:
    """(N, 4) x1 y1 x2 y2, pixels, of boxes as a file has them in images of (height, width) `sizes`, (N, 2)."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if layout.box == "cxcywh":
        first = first - second / 2
    if layout.box != "xyxy":
        second = first + second
    whole = {"pixels": np.ones((1, 2)), "shares": sizes[:, ::-1], "percent": sizes[:, ::-1] / 100}[layout.units]
    return np.concatenate([first * whole, second * whole], axis=1)


def _sorted(
    names: dict[str, int], homes: np.ndarray, boxes: np.ndarray, labels: np.ndarray
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """The names sorted, and the labels by their places in that order."""
    order = sorted(names)
    ranks = np.zeros(len(order), np.int64)
    ranks[[names[name] for name in order]] = np.arange(len(order))
    labels = ranks[labels.astype(np.int64)] if len(labels) else np.zeros(0, np.int64)
    return order, homes.astype(np.int64), boxes.astype(np.float64), labels
