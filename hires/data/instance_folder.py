"""Reads boxes and instance masks from mask files whose values are numbers of objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np

from hires.data.box_checks import remark
from hires.data.box_classes import Table, Vocabulary
from hires.data.box_folder import PairedBoxes, Parsed, WithInstances
from hires.data.box_objects import Images, Objects
from hires.data.instance_masks import Reading, objects_of, read_runs
from hires.data.pairs import Pair
from hires.data.segments import Segment, Segments
from hires.settings import Bounds, SettingError

_ONLY = 1  # number of the class where there is one


@dataclass(frozen=True, kw_only=True)
class InstanceFolder(WithInstances, PairedBoxes):
    """Images and masks below `root`, paired by what the wildcards of both globs matched alike.

    The class of an object is its id divided by `divisor`, rounded down; an id below `divisor` that is itself the
    number of a class is an ignored group of such objects. Raises SettingError for classes that do not fit.
    """

    masks: str  # glob relative to root
    # without divisor the name of the one class, with it name -> number(s)
    classes: tuple[str, ...] | dict[str, int | tuple[int, ...]]
    divisor: Annotated[int, Bounds(1)] | None = None
    threshold: Annotated[float, Bounds(0, 65534)] | None = None  # higher values become 255, others 0
    ids: Literal["index", "rgb"] = "index"  # values, or colours: red + 256 green + 65536 blue
    background_ids: tuple[Annotated[int, Bounds(0)], ...] = (0,)  # of no object
    parts: Literal["whole", "apart"] = "whole"  # apart: what does not touch is another object
    min_pixels: Annotated[int, Bounds(1)] = 1  # smaller objects are left out

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.divisor is None and not (isinstance(self.classes, tuple) and len(self.classes) == 1):
            given = list(self.classes) if isinstance(self.classes, tuple) else self.classes
            raise SettingError("classes", given, "[NAME] of the one class, unless divisor says how an id tells it")
        if self.divisor is not None and not isinstance(self.classes, dict):
            raise SettingError("classes", list(self.classes), "NAME: number(s), which id // divisor gives")
        if self.threshold is not None and (self.ids == "rgb" or self.divisor is not None):
            raise SettingError(
                "threshold", self.threshold, "null with ids=rgb or a divisor, which need ids as they are"
            )

    def pairs(self) -> list[Pair]:
        return self.matched("mask", self.masks, are_images=True)

    def table(self) -> Table | None:
        return {self.classes[0]: _ONLY} if isinstance(self.classes, tuple) else dict(self.classes)

    def parsed(self, pairs: Sequence[Pair], members: Sequence[Pair], images: Images) -> Parsed:
        sizes, taken = images.sizes.tolist(), []
        for index, pair in enumerate(members):
            if pair.truth:
                taken.append(self._taken(self.root_path() / pair.truth, (sizes[index][0], sizes[index][1]), index))
        segments = [segment for part in taken for segment in part.segments]
        homes = np.concatenate([np.zeros(0, np.int64), *(part.homes for part in taken)])
        small = np.concatenate([np.zeros(0, np.int64), *(part.small for part in taken)])
        what = f"object(s) have less than data.min_pixels={self.min_pixels} and are left out"
        objects = Objects(
            homes,
            np.concatenate([np.zeros((0, 4)), *(part.boxes for part in taken)]),
            np.concatenate([np.zeros(0, np.int64), *(part.classes for part in taken)]),
            np.concatenate([np.zeros(0, bool), *(part.ignored for part in taken)]),
            np.concatenate([np.zeros(0), *(part.areas for part in taken)]),
            np.arange(1, len(homes) + 1),
        )
        return Parsed(
            objects,
            Vocabulary({}, complete=False),
            (remark(what, small, images),) if len(small) else (),
            Segments(segments) if self.wants_masks() else None,
        )

    def _taken(self, path: Path, size: tuple[int, int], index: int) -> "_Taken":
        """The objects of a mask that count, of the image of this index."""
        reading = Reading(self.ids == "rgb", self.threshold, self.background_ids, self.parts == "apart")
        decode = partial(read_runs, size=size, reading=reading)
        found = objects_of(self.cache().load(path, decode, repr(("instances", size, reading))), size)
        classes, groups, counted = self._classes(found.ids)
        large = found.areas >= self.min_pixels
        kept = np.flatnonzero(counted & large)
        return _Taken(
            np.full(len(kept), index),
            found.boxes[kept],
            classes[kept],
            groups[kept],
            found.areas[kept].astype(np.float64),
            np.full(np.count_nonzero(counted & ~large), index),
            list(found.segments(kept)) if self.wants_masks() else [],
        )

    def _classes(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The class number of every id, whether it is a group of objects, and whether it is any object."""
        if self.divisor is None:
            return np.full(len(ids), _ONLY), np.zeros(len(ids), bool), np.ones(len(ids), bool)
        low = ids < self.divisor
        return np.where(low, ids, ids // self.divisor), low, ~low | np.isin(ids, self._numbers())

    def _numbers(self) -> list[int]:
        """All class numbers of the settings."""
        given = self.classes.values() if isinstance(self.classes, dict) else ()
        listed = [number for key in given for number in (key if isinstance(key, tuple) else (key,))]
        return [*listed, *(number for number in self.ignore_classes if isinstance(number, int))]


class _Taken(NamedTuple):
    """The objects of one mask."""

    homes: np.ndarray  # (N,) index of the image
    boxes: np.ndarray
    classes: np.ndarray
    ignored: np.ndarray
    areas: np.ndarray
    small: np.ndarray  # index of the image, as often as an object of it is too small
    segments: list[Segment]
