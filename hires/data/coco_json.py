"""Reads COCO's annotation files into flat lists, and refuses by name what does not fit together."""

from pathlib import Path
from typing import Any, NamedTuple

from hires.data.box_lists import path_below
from hires.data.coco_values import area, corners, crowd, text, whole_number
from hires.data.label_json import read_json, shown
from hires.interfaces import DataError


class CocoImage(NamedTuple):
    """An image of the file."""

    id: int
    path: str  # relative to the data set's root
    size: tuple[int, int] | None  # (height, width) if the file states it, pixels


class CocoObject(NamedTuple):
    """An annotation of the file."""

    id: int
    image_id: int
    category_id: int
    box: tuple[float, ...]  # x1 y1 x2 y2, pixels
    area: float  # pixels, NaN where not given
    crowd: bool
    segmentation: Any  # as it is


class CocoFile(NamedTuple):
    """What one file says."""

    images: list[CocoImage]
    objects: list[CocoObject]
    categories: dict[int, str]  # name by id


class Outline(NamedTuple):
    """The little of a file that other splits are compared with."""

    paths: tuple[str, ...]
    categories: dict[int, str]


Entry = dict[str, Any]
_outlines: dict[tuple[str, str, int], Outline] = {}  # large files take a minute, and every split asks for all


def read_coco(path: Path, folder: str, root: Path) -> CocoFile:
    """A whole file; `folder`, relative to the data set's root, is where its file names begin. Raises DataError."""
    content = _content(path)
    images = _images(path, content["images"], folder, root)
    categories = _categories(path, content["categories"])
    known = {image.id for image in images}
    objects = [_object(path, n, given) for n, given in enumerate(content["annotations"], 1)]
    for thing in objects:
        if thing.image_id not in known:
            raise DataError(f"{path}: annotation {thing.id} is of image {thing.image_id}, which is not listed")
        if thing.category_id not in categories:
            raise DataError(f"{path}: annotation {thing.id} is of category {thing.category_id}, not listed")
    _check_unique(path, "annotation id", [thing.id for thing in objects])
    _outlines[_key(path, folder)] = _outline(images, categories)
    return CocoFile(images, objects, categories)


def outline(path: Path, folder: str, root: Path) -> Outline:
    """The images and categories of a file, which is read once as long as it does not change. Raises DataError."""
    key = _key(path, folder)
    if key not in _outlines:
        content = _content(path)
        _outlines[key] = _outline(
            _images(path, content["images"], folder, root), _categories(path, content["categories"])
        )
    return _outlines[key]


def _outline(images: list[CocoImage], categories: dict[int, str]) -> Outline:
    return Outline(tuple(image.path for image in images), categories)


def _key(path: Path, folder: str) -> tuple[str, str, int]:
    return str(path), folder, path.stat().st_mtime_ns if path.exists() else 0


def _content(path: Path) -> dict[str, list[Entry]]:
    content = read_json(path)
    for key in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise DataError(f"{path}: has no list {key!r}; COCO files have images, annotations and categories")
        for number, entry in enumerate(content[key], 1):
            if not isinstance(entry, dict):
                raise DataError(f"{path}: entry {number} of {key} is {shown(entry)}, expected keys with values")
    return content


def _images(path: Path, given: list[Entry], folder: str, root: Path) -> list[CocoImage]:
    images = [_image(path, number, entry, folder, root) for number, entry in enumerate(given, 1)]
    _check_unique(path, "image id", [image.id for image in images])
    _check_unique(path, "file name", [image.path for image in images])
    return images


def _image(path: Path, number: int, given: Entry, folder: str, root: Path) -> CocoImage:
    try:
        sides = [whole_number(given, side) if given.get(side) else 0 for side in ("height", "width")]
        size = (sides[0], sides[1]) if all(sides) else None
        return CocoImage(whole_number(given, "id"), _path(text(given, "file_name"), folder, root), size)
    except ValueError as error:
        raise DataError(f"{path}: entry {number} of images {error}") from None


def _path(name: str, folder: str, root: Path) -> str:
    try:
        return path_below(name, folder, root)
    except ValueError as error:
        raise ValueError(f"has file_name {error}") from None


def _categories(path: Path, given: list[Entry]) -> dict[int, str]:
    pairs = [_category(path, number, entry) for number, entry in enumerate(given, 1)]
    if not pairs:
        raise DataError(f"{path}: has no categories")
    _check_unique(path, "category id", [number for number, _ in pairs])
    return dict(pairs)


def _category(path: Path, number: int, given: Entry) -> tuple[int, str]:
    try:
        return whole_number(given, "id"), text(given, "name")
    except ValueError as error:
        raise DataError(f"{path}: entry {number} of categories {error}") from None


def _object(path: Path, number: int, given: Entry) -> CocoObject:
    try:
        return CocoObject(
            whole_number(given, "id") if "id" in given else number,
            whole_number(given, "image_id"),
            whole_number(given, "category_id"),
            corners(given),
            area(given),
            crowd(given),
            given.get("segmentation"),
        )
    except ValueError as error:
        which = f"annotation {shown(given['id'])}" if "id" in given else f"entry {number} of annotations"
        raise DataError(f"{path}: {which} {error}") from None


def _check_unique(path: Path, what: str, values: list[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise DataError(f"{path}: {what} {value} stands there twice; make each unique")
        seen.add(value)
