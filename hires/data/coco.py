"""Reads boxes and instance masks from COCO's annotation files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from hires.data.box_checks import sizes_that_differ
from hires.data.box_classes import Given, Table, Vocabulary
from hires.data.box_folder import AnnotatedImages, WithInstances
from hires.data.box_lists import ListedImages
from hires.data.box_objects import Objects, found
from hires.data.coco_json import CocoObject, Outline, outline, read_coco
from hires.data.drawn_masks import DrawnMasks
from hires.data.segments import Segments, parsed
from hires.interfaces import DataError


@dataclass(frozen=True, kw_only=True)
class CocoShapes(ListedImages):
    """A JSON of all images, divided by `splits`, or one for each split, which then says what is in it."""

    FORMAT: ClassVar[str] = "JSON"

    classes: tuple[str, ...] | dict[str, Given | tuple[Given, ...]] | None = None  # null: all categories

    def table(self) -> Table | None:
        return self.classes

    def annotated(self, split: str) -> AnnotatedImages:
        root, file = self.checked_root(), self.file(split)
        content = read_coco(root / file, self.folder(split), root)
        if not content.images:
            raise DataError(f"{root / file}: lists no image; name another file in data.annotations")
        categories = content.categories
        if isinstance(self.annotations, dict):
            outlines = self._outlines()
            self.check_apart({name: one.paths for name, one in outlines.items()})
            categories = _joined(root, outlines)
        members = self.chosen(split, [image.path for image in content.images])
        entries = [image for image in content.images if image.path in members]
        images = found(root, [entry.path for entry in entries], [entry.id for entry in entries])
        things, homes = _of_images(content.objects, images.ids)
        return AnnotatedImages(
            images,
            _objects(things, homes),
            Vocabulary(categories),
            [str(root / file)] * len(entries),
            self._segments(root / file, things, images.sizes[homes]) if self.wants_masks() else None,
            sizes_that_differ([entry.size for entry in entries], images),
        )

    def _outlines(self) -> dict[str, Outline]:
        root = self.root_path()
        return {split: outline(root / self.file(split), self.folder(split), root) for split in self.annotations}

    def _segments(self, file: Path, things: Sequence[CocoObject], sizes: np.ndarray) -> Segments:
        segments = []
        for thing, (height, width) in zip(things, sizes.tolist(), strict=True):
            try:
                segments.append(parsed(thing.segmentation, (height, width)))
            except ValueError as error:
                raise DataError(
                    f"{file}: annotation {thing.id} {error}; correct it, or learn without masks: model=faster_rcnn"
                ) from None
        return Segments(segments)


@dataclass(frozen=True, kw_only=True)
class CocoFolder(WithInstances, CocoShapes):
    """Boxes of COCO's files, with masks if wanted."""


@dataclass(frozen=True, kw_only=True)
class CocoMasks(DrawnMasks, CocoShapes):
    """Masks of classes, painted of the polygons and run lengths of COCO's files."""


def _joined(root: Path, outlines: Mapping[str, Outline]) -> dict[int, str]:
    """The categories of all files. Raises DataError where they contradict each other."""
    names: dict[int, str] = {}
    for split, one in outlines.items():
        for number, name in one.categories.items():
            if names.setdefault(number, name) != name:
                raise DataError(
                    f"{root}: category {number} is {name!r} in the JSON of {split!r} and {names[number]!r} in "
                    "another; give it the same name in all"
                )
    return names


def _of_images(objects: Sequence[CocoObject], ids: np.ndarray) -> tuple[list[CocoObject], np.ndarray]:
    """The objects of some images in their order, and the index of the image of each."""
    index = {image_id: position for position, image_id in enumerate(ids.tolist())}
    things = sorted((thing for thing in objects if thing.image_id in index), key=lambda t: index[t.image_id])
    return things, np.array([index[thing.image_id] for thing in things], np.int64)


def _objects(things: Sequence[CocoObject], homes: np.ndarray) -> Objects:
    return Objects(
        homes,
        np.array([thing.box for thing in things], np.float64).reshape(-1, 4),
        np.array([thing.category_id for thing in things], np.int64),
        np.array([thing.crowd for thing in things], bool),
        np.array([thing.area for thing in things], np.float64),
        np.array([thing.id for thing in things], np.int64),
    )
