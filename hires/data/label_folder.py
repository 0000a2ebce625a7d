"""Reads boxes from text files beside the images: YOLO's, and lists of corners."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from hires.data.box_classes import Given, Table, Vocabulary
from hires.data.box_folder import PairedBoxes, Parsed
from hires.data.box_objects import Images, made
from hires.data.box_text import class_numbers, looks_like_rows, read_rows
from hires.data.class_names import names_file, read_names
from hires.data.label_json import FURTHEST
from hires.data.pairs import Pair
from hires.interfaces import DataError


@dataclass(frozen=True, kw_only=True)
class LabelFolder(PairedBoxes):
    """Images and text files below `root`, paired by what the wildcards of both globs matched alike."""

    labels: str  # glob relative to root
    # file of names below root, names in order of their numbers or by number, or name -> number(s) in the files, or
    # name(s) in the file of names in root; null: that file
    classes: str | tuple[str, ...] | dict[str, Given | tuple[Given, ...]] | dict[int, str] | None = None

    def pairs(self) -> list[Pair]:
        return self.matched("label", self.labels)

    def is_truth(self, path: Path) -> bool:
        return looks_like_rows(path)

    def table(self) -> Table | None:
        if not isinstance(self.classes, dict) or self._by_number():
            return None
        return cast(Table, self.classes)

    def parsed(self, pairs: Sequence[Pair], members: Sequence[Pair], images: Images) -> Parsed:
        vocabulary, root = self._vocabulary(), self.root_path()
        homes = [index for index, pair in enumerate(members) if pair.truth]
        parts = [self._objects(root / members[index].truth, images.sizes[index]) for index in homes]
        counts = np.array([len(boxes) for boxes, _ in parts], np.int64)
        boxes = np.concatenate([np.zeros((0, 4)), *(boxes for boxes, _ in parts)])
        numbers = np.concatenate([np.zeros(0, np.int64), *(numbers for _, numbers in parts)])
        return Parsed(made(np.repeat(np.array(homes, np.int64), counts), boxes, numbers), vocabulary)

    @abstractmethod
    def first_number(self) -> int:
        """The number of the first class."""

    @abstractmethod
    def _objects(self, path: Path, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Boxes (N, 4) in pixels and class numbers (N,) of a file, whose image has this (height, width)."""

    def _by_number(self) -> bool:
        return isinstance(self.classes, dict) and all(isinstance(key, int) for key in self.classes)

    def _names_classes(self) -> bool:
        """Whether the settings call any class by a name, which a file must then give a number."""
        given = self.classes.values() if isinstance(self.classes, dict) else ()
        listed = [key for value in given for key in (value if isinstance(value, tuple) else (value,))]
        return any(isinstance(key, str) for key in [*listed, *self.ignore_classes])

    def _vocabulary(self) -> Vocabulary:
        if self._by_number():
            return Vocabulary(cast(dict[int, str], self.classes))
        if isinstance(self.classes, dict) and not self._names_classes():
            return Vocabulary({}, complete=False)
        if isinstance(self.classes, tuple):
            names = dict(enumerate(self.classes))
        else:
            root = self.root_path()
            given = isinstance(self.classes, str) and self.classes
            names = read_names(root / given if given else names_file(root))
        return Vocabulary({number + self.first_number(): name for number, name in names.items()})


@dataclass(frozen=True, kw_only=True)
class YoloFolder(LabelFolder):
    """YOLO's text files: `class cx cy w h` a line, shares of the image's width and height."""

    def first_number(self) -> int:
        return 0

    def _objects(self, path: Path, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, lines = read_rows(path, "class cx cy w h")
        wrong = np.flatnonzero((np.abs(rows[:, 1:]) > 2).any(axis=1))
        if len(wrong):
            raise DataError(
                f"{path}:{lines[wrong[0]]}: {rows[wrong[0], 1:].tolist()} are no shares of the image's size, from "
                "0 to 1; if they are pixels, x1 y1 x2 y2 class, read them with data=xyxy"
            )
        centres, sides = rows[:, 1:3] * size[::-1], rows[:, 3:] * size[::-1]
        boxes = np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)
        return boxes, class_numbers(path, rows[:, 0], lines)


@dataclass(frozen=True, kw_only=True)
class XyxyFolder(LabelFolder):
    """Text files of `x1 y1 x2 y2 class` a line, in pixels."""

    index_base: Literal[0, 1] = 0  # number of the first class

    def first_number(self) -> int:
        return self.index_base

    def _objects(self, path: Path, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, lines = read_rows(path, "x1 y1 x2 y2 class")
        wrong = np.flatnonzero((np.abs(rows[:, :4]) > FURTHEST).any(axis=1))
        if len(wrong):
            raise DataError(f"{path}:{lines[wrong[0]]}: {rows[wrong[0], :4].tolist()} are no pixels of any image")
        return rows[:, :4], class_numbers(path, rows[:, 4], lines)
