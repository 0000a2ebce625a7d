"""What the columns of a CSV of boxes are: by their names in a header, and what their numbers mean."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from hires.data.label_json import FURTHEST

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


class Layout(NamedTuple):
    """What the columns of a file are."""

    box: str = "xyxy"  # of COORDINATES
    units: str = "pixels"  # of MOST
    headers: Mapping[str, str] = MappingProxyType({})  # of columns that are not called as usual

    @property
    def columns(self) -> tuple[str, ...]:
        return ("path", *COORDINATES[self.box], "label")


USUAL = Layout()
"""Corners in pixels, columns under the usual names."""


def header_places(row: list[str], layout: Layout) -> list[int]:
    """Where the columns are, by a header; an empty list where the row is none. Raises ValueError."""
    cells = [cell.strip() for cell in row]
    fits = len(row) == len(layout.columns)
    if fits and not layout.headers and not _are_names(cells[1:5]):
        return []  # a class may be called as a column is
    found = {name: _columns_of(name, cells, layout) for name in layout.columns}
    known = layout.headers or any(found[name] for name in layout.columns[1:5])
    if not known and not fits and not (len(row) > 1 and _are_names(cells)):
        raise ValueError(
            f"{len(row)} column(s), expected {','.join(layout.columns)}, or a header that names those among others"
        )
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


def corners_of(boxes: np.ndarray, layout: Layout, sizes: np.ndarray) -> np.ndarray:
    """(N, 4) x1 y1 x2 y2, pixels, of boxes as a file has them in images of (height, width) `sizes`, (N, 2)."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if layout.box == "cxcywh":
        first = first - second / 2
    if layout.box != "xyxy":
        second = first + second
    whole = {"pixels": np.ones((1, 2)), "shares": sizes[:, ::-1], "percent": sizes[:, ::-1] / 100}[layout.units]
    return np.concatenate([first * whole, second * whole], axis=1)
