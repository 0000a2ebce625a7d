"""Reads boxes, instance masks, and masks of classes from labelme's JSON files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hires.data.box_checks import Remark, remark, sizes_that_differ
from hires.data.box_classes import Given, Table, Vocabulary
from hires.data.box_folder import PairedBoxes, Parsed, WithInstances
from hires.data.box_objects import Images, made
from hires.data.drawn_masks import DrawnMasks
from hires.data.labelme_json import LabelmeFile, read_labelme
from hires.data.outlines import ring_box
from hires.data.pairs import Pair
from hires.data.segments import Segments, ring_segment


@dataclass(frozen=True, kw_only=True)
class LabelmeShapes(PairedBoxes):
    """Images and JSON files below `root`, paired by what the wildcards of both globs matched alike.

    What a file says of the image's path, and an image that it contains, are not used.
    """

    annotations: str  # glob relative to root
    classes: tuple[str, ...] | dict[str, Given | tuple[Given, ...]] | None = None  # null: all labels, sorted

    def pairs(self) -> list[Pair]:
        return self.matched("annotation", self.annotations)

    def table(self) -> Table | None:
        return self.classes

    def parsed(self, pairs: Sequence[Pair], members: Sequence[Pair], images: Images) -> Parsed:
        root = self.root_path()
        wanted = pairs if self.classes is None else members  # a split may lack a label that another has
        files = {pair.truth: read_labelme(root / pair.truth) for pair in wanted if pair.truth}
        names = sorted({shape.name for file in files.values() for shape in file.shapes})
        numbers = {name: number for number, name in enumerate(names)}
        listed = [files.get(pair.truth, LabelmeFile(None, [], Counter())) for pair in members]
        homes = np.repeat(np.arange(len(members)), [len(file.shapes) for file in listed])
        shapes = [shape for file in listed for shape in file.shapes]
        objects = made(
            homes,
            np.array([ring_box(shape.rings) for shape in shapes], np.float64),
            np.array([numbers[shape.name] for shape in shapes], np.int64),
        )
        heights = images.sizes[homes, 0].tolist()
        segments = [ring_segment(shape.rings, height) for shape, height in zip(shapes, heights, strict=True)]
        return Parsed(
            objects,
            Vocabulary.of_names(names),
            (*_left_out(listed, images), *sizes_that_differ([file.size for file in listed], images)),
            Segments(segments) if self.wants_masks() else None,
        )


@dataclass(frozen=True, kw_only=True)
class LabelmeFolder(WithInstances, LabelmeShapes):
    """Boxes around the shapes of labelme's files, with masks if wanted."""


@dataclass(frozen=True, kw_only=True)
class LabelmeMasks(DrawnMasks, LabelmeShapes):
    """Masks of classes, painted of the shapes of labelme's files."""


def _left_out(files: Sequence[LabelmeFile], images: Images) -> list[Remark]:
    kinds = Counter[str]()
    for file in files:
        kinds.update(file.left_out)
    return [
        remark(
            f"shape(s) of type {kind} have no outline and are left out",
            np.repeat(np.arange(len(files)), [file.left_out[kind] for file in files]),
            images,
        )
        for kind in sorted(kinds)
    ]
