"""Reads boxes from the XML files of Pascal VOC."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

import numpy as np

from hires.data.box_checks import sizes_that_differ
from hires.data.box_classes import Given, Table, Vocabulary
from hires.data.box_folder import PairedBoxes, Parsed
from hires.data.box_objects import Images, made
from hires.data.formats.image_file import read_bytes
from hires.data.label_json import check_near, shown
from hires.data.pairs import Pair
from hires.interfaces import DataError

_SIDE = re.compile(r"[0-9]{1,9}")
_CORNERS = ("xmin", "ymin", "xmax", "ymax")


class VocObject(NamedTuple):
    """One object of a file."""

    name: str
    box: tuple[float, ...]  # x1 y1 x2 y2, pixels
    difficult: bool


class VocFile(NamedTuple):
    """What one file says."""

    size: tuple[int, int] | None  # (height, width) of the image, pixels
    objects: list[VocObject]


@dataclass(frozen=True, kw_only=True)
class VocFolder(PairedBoxes):
    """Images and XML files below `root`, paired by what the wildcards of both globs matched alike.

    What the XML says of the image's name and place is not used.
    """

    annotations: str  # glob relative to root
    classes: tuple[str, ...] | dict[str, Given | tuple[Given, ...]] | None = None  # null: all names, sorted
    difficult: Literal["ignore", "keep"] = "ignore"  # objects that are marked so: ignored, or like the others

    def pairs(self) -> list[Pair]:
        return self.matched("annotation", self.annotations)

    def table(self) -> Table | None:
        return self.classes

    def parsed(self, pairs: Sequence[Pair], members: Sequence[Pair], images: Images) -> Parsed:
        root = self.root_path()
        wanted = pairs if self.classes is None else members  # a split may lack a class that another has
        files = {pair.truth: read_voc(root / pair.truth) for pair in wanted if pair.truth}
        names = sorted({thing.name for file in files.values() for thing in file.objects})
        numbers = {name: number for number, name in enumerate(names)}
        listed = [files.get(pair.truth, VocFile(None, [])) for pair in members]
        things = [thing for file in listed for thing in file.objects]
        objects = made(
            np.repeat(np.arange(len(members)), [len(file.objects) for file in listed]),
            np.array([thing.box for thing in things], np.float64),
            np.array([numbers[thing.name] for thing in things], np.int64),
            np.array([thing.difficult and self.difficult == "ignore" for thing in things], bool),
        )
        vocabulary = Vocabulary.of_names(names)
        return Parsed(objects, vocabulary, sizes_that_differ([file.size for file in listed], images))


def read_voc(path: Path) -> VocFile:
    """What a file says. Raises DataError for what is no such file, or has a DTD or entities."""
    root = _root(path)
    sides = [(root.findtext(f"size/{side}") or "").strip() for side in ("height", "width")]
    height, width = (int(side) if _SIDE.fullmatch(side) else 0 for side in sides)  # often 0 where it was not known
    objects = [_object(path, number, element) for number, element in enumerate(root.iter("object"), 1)]
    return VocFile((height, width) if height and width else None, objects)


class _PlainBuilder(TreeBuilder):
    """Refuses a document type before any entity of it is declared."""

    def doctype(self, *_: object) -> None:
        raise ValueError("has a DOCTYPE, which may refer to other files; remove it")


def _root(path: Path) -> Element:
    parser = XMLParser(target=_PlainBuilder())
    try:
        parser.feed(read_bytes(path))
        return parser.close()
    except ParseError as error:
        raise DataError(f"{path}: is no XML ({error}); save it again") from None
    except (ValueError, LookupError) as error:
        raise DataError(f"{path}: {error}") from None


def _object(path: Path, number: int, element: Element) -> VocObject:
    place = f"{path}: object {number}"
    name = (element.findtext("name") or "").strip()
    if not name:
        raise DataError(f"{place}: has no <name>; add it or remove the object")
    corners = [(element.findtext(f"bndbox/{corner}") or "").strip() for corner in _CORNERS]
    try:
        box = tuple(float(corner) for corner in corners)
    except ValueError:
        raise DataError(f"{place} ({name}): <bndbox> needs {', '.join(_CORNERS)}, got {shown(corners)}") from None
    if not check_near(box):
        raise DataError(f"{place} ({name}): <bndbox> is not finite, or far outside of any image: {shown(corners)}")
    return VocObject(name, box, (element.findtext("difficult") or "").strip() == "1")
