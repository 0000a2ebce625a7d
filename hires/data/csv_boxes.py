"""Reads boxes from CSV files that list them with the paths of their images."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from hires.data.box_classes import Given, Table, Vocabulary
from hires.data.box_folder import AnnotatedImages
from hires.data.box_lists import ListedImages
from hires.data.box_objects import found, made
from hires.data.csv_layout import COORDINATES, Layout, corners_of
from hires.data.csv_rows import CsvFile, read_csv
from hires.interfaces import DataError
from hires.settings import SettingError


@dataclass(frozen=True, kw_only=True)
class CsvBoxes(ListedImages):
    """A CSV of all images, divided by `splits`, or one for each split, which then says what is in it."""

    FORMAT: ClassVar[str] = "CSV"

    classes: tuple[str, ...] | dict[str, Given | tuple[Given, ...]] | None = None  # null: all labels, sorted
    columns: dict[str, str] | None = None  # what a column is called in the header, where that is unusual
    box: Literal["xyxy", "xywh", "cxcywh"] = "xyxy"  # corners, upper left corner and size, centre and size
    units: Literal["pixels", "shares", "percent"] = "pixels"  # the latter two of the image's width and height

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self.layout().columns
        for name in self.columns or {}:
            if name not in known:
                fitting = [box for box, names in COORDINATES.items() if name in names and box != self.box]
                hint = f"; data.box={fitting[0]} has {name}" if fitting else ""
                raise SettingError("columns", name, f"{', '.join(known)} with box={self.box}{hint}")

    def layout(self) -> Layout:
        return Layout(self.box, self.units, self.columns or {})

    def table(self) -> Table | None:
        return self.classes

    def annotated(self, split: str) -> AnnotatedImages:
        root, file = self.checked_root(), self.file(split)
        files = {split: self._read(split)}
        if isinstance(self.annotations, dict):
            files |= {name: self._read(name) for name in self.annotations if name != split}
            self.check_apart({name: content.paths for name, content in files.items()})
        content = files[split]
        if not content.paths:
            raise DataError(f"{root / file}: lists no image; name another file in data.annotations")
        members = self.chosen(split, content.paths)
        paths = [path for path in content.paths if path in members]
        names = sorted({name for content in files.values() for name in content.names})
        places = {name: place for place, name in enumerate(names)}
        ranks = np.array([places[name] for name in content.names], np.int64)
        index = {path: position for position, path in enumerate(paths)}
        homes = np.array([index.get(path, -1) for path in content.paths], np.int64)[content.homes]
        order = np.argsort(homes, kind="stable")
        order = order[homes[order] >= 0]
        classes = ranks[content.classes[order]] if len(order) else np.zeros(0, np.int64)
        images = found(root, paths)
        boxes = corners_of(content.boxes[order], self.layout(), images.sizes[homes[order]])
        return AnnotatedImages(
            images,
            made(homes[order], boxes, classes),
            Vocabulary.of_names(names),
            [str(root / file)] * len(paths),
        )

    def _read(self, split: str) -> CsvFile:
        root = self.root_path()
        return read_csv(root / self.file(split), self.folder(split), root, self.layout())
