"""Reads boxes and instance masks from COCO's annotation files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from hires.data.box_checks import sizes_that_differ
from hires.data.box_classes import Given, Table, Vocabulary
from hires.data.box_folder import AnnotatedImages, BoxSettings
from hires.data.box_objects import Objects, found
from hires.data.coco_json import CocoObject, Outline, outline, read_coco
from hires.data.folds import group_names
from hires.data.pairs import Pair, some
from hires.data.segments import Segments, parsed
from hires.data.splits import check_leaks
from hires.interfaces import ConfigError, DataError
from hires.settings import SettingError

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True)
class CocoFolder(BoxSettings):
    """A JSON of all images, divided by `splits`, or one for each split, which then says what is in it."""

    annotations: str | dict[str, str]  # JSON below root, or split -> JSON
    images: str | dict[str, str] = (
        "."  # folder below root where the file names of the JSON begin, or split -> folder
    )
    classes: tuple[str, ...] | dict[str, Given | tuple[Given, ...]] | None = None  # null: all categories
    instance_masks: bool = False  # whether the target has the objects' masks

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.annotations, dict):
            _check_names(self.annotations)
            if self.fold is not None:
                raise SettingError("fold", self.fold, "null with a JSON for each split in data.annotations")
            if isinstance(self.images, dict) and not set(self.annotations) <= set(self.images):
                raise SettingError("images", self.images, f"a folder for each of {', '.join(self.annotations)}")
        elif isinstance(self.images, dict):
            raise SettingError("images", self.images, "one folder, as data.annotations is one JSON")

    def has_split(self, split: str) -> bool:
        return split in self.annotations if isinstance(self.annotations, dict) else super().has_split(split)

    def table(self) -> Table | None:
        return self.classes

    def annotated(self, split: str) -> AnnotatedImages:
        root, file = self.root_path(), self._file(split)
        if not root.is_dir():
            raise DataError(f"{root}: no such folder; point data.root= (or data_dir=) at the data set")
        content = read_coco(root / file, self._folder(split))
        if not content.images:
            raise DataError(f"{root / file}: lists no image; name another file in data.annotations")
        pairs = [Pair(image.path, image.path, file) for image in content.images]
        if isinstance(self.annotations, str):
            members = {pair.image for pair in self.members(split, pairs)}
            categories = content.categories
        else:
            outlines = self._outlines()
            self._check_apart(outlines)
            members = {pair.image for pair in pairs}
            categories = _joined(root, outlines)
        entries = [image for image in content.images if image.path in members]
        _check_there(root, root / file, [entry.path for entry in entries])
        images = found(root, [entry.path for entry in entries], [entry.id for entry in entries])
        things, homes = _of_images(content.objects, images.ids)
        return AnnotatedImages(
            images,
            _objects(things, homes),
            Vocabulary(categories),
            [str(root / file)] * len(entries),
            self._segments(root / file, things, images.sizes[homes]) if self.instance_masks else None,
            sizes_that_differ([entry.size for entry in entries], images),
        )

    def _file(self, split: str) -> str:
        if isinstance(self.annotations, str):
            return self.annotations
        if split not in self.annotations:
            near = get_close_matches(split, self.annotations, 1)
            fix = f"did you mean {near[0]}?" if near else f"add {split}: FILE"
            named = ", ".join(self.annotations)
            raise ConfigError(f"data.annotations: has no JSON for {split!r}, only for {named}; {fix}")
        return self.annotations[split]

    def _folder(self, split: str) -> str:
        return self.images if isinstance(self.images, str) else self.images[split]

    def _outlines(self) -> dict[str, Outline]:
        root = self.root_path()
        return {split: outline(root / self._file(split), self._folder(split)) for split in self.annotations}

    def _check_apart(self, outlines: Mapping[str, Outline]) -> None:
        root, chosen = self.root_path(), {split: set(one.paths) for split, one in outlines.items()}
        pairs = [Pair(path, path, "") for path in sorted(set().union(*chosen.values()))]
        check_leaks(root, pairs, chosen, group_names(root, pairs, self.groups), "data.annotations")

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


def _check_names(annotations: Mapping[str, str]) -> None:
    for name in annotations:
        if name not in SPLITS:
            near = get_close_matches(name, SPLITS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError("annotations", name, f"a JSON for each of {', '.join(SPLITS)}{hint}")


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


def _check_there(root: Path, file: Path, paths: Sequence[str]) -> None:
    missing = [path for path in paths if not (root / path).is_file()]
    if missing:
        raise DataError(
            f"{file}: {len(missing)} of {len(paths)} images are not there: {some(missing)} (below {root}); "
            "set data.images to the folder of the file names"
        )


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
