"""Puts boxes right that are not quite, and says once how many there were of each kind."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.box_objects import Images, Objects
from hires.data.pairs import some

log = logging.getLogger(__name__)

_SMALLEST = 1e-3  # pixels: boxes of a shorter side have no area
_ROUNDING = 0.01  # pixels over the border that are an effect of rounded shares


class Remark(NamedTuple):
    """Something that is wrong in several files."""

    what: str
    number: int
    names: list[str]  # the files, each once

    def warn(self, root: Path) -> None:
        log.warning("%s: %d %s: %s", root, self.number, self.what, some(self.names))


class Problems(NamedTuple):
    """What is wrong with boxes: (M,) bool each; `repeated` may be true beside `leaving`."""

    flat: np.ndarray  # no area, or upside down
    outside: np.ndarray  # of their image
    leaving: np.ndarray  # their image, in part
    repeated: np.ndarray  # exactly as an earlier one


def cleaned(
    objects: Objects, images: Images, masks: np.ndarray | None = None
) -> tuple[Objects, np.ndarray, list[Remark]]:
    """Objects whose boxes lie in their image and have an area, which of the given ones they are, and findings.

    Boxes that leave the image are clipped; those without area, before or after that, and exact repetitions
    (image, class and box) are dropped. Where masks are read, `masks` (M,) numbers them: objects with different
    ones are no repetitions.
    """
    clipped, wrong = problems(objects, images.sizes, masks)
    kinds = {
        "box(es) without area or upside down are left out": wrong.flat,
        "box(es) lie outside of their image and are left out": wrong.outside,
        "box(es) reach beyond their image and are clipped": wrong.leaving,
        "box(es) repeat another and are left out": wrong.repeated,
    }
    findings = [remark(what, objects.images[which], images) for what, which in kinds.items() if which.any()]
    which = np.flatnonzero(~(wrong.flat | wrong.outside | wrong.repeated))
    return objects._replace(boxes=clipped).take(which), which, findings


def problems(objects: Objects, sizes: np.ndarray, masks: np.ndarray | None = None) -> tuple[np.ndarray, Problems]:
    """The boxes (M, 4) clipped to images of `sizes` (N, 2), and what was wrong with each before."""
    height, width = sizes[objects.images].T
    limits = np.stack([width, height, width, height], axis=1)
    clipped = np.clip(objects.boxes, 0, limits)
    flat = _is_flat(objects.boxes)
    outside = ~flat & _is_flat(clipped)
    leaving = ~flat & ~outside & (np.abs(clipped - objects.boxes) > _ROUNDING).any(axis=1)
    kept = ~flat & ~outside
    return clipped, Problems(flat, outside, leaving, kept & ~_is_first(objects, kept, masks))


def _is_flat(boxes: np.ndarray) -> np.ndarray:
    return (boxes[:, 2:] - boxes[:, :2] < _SMALLEST).any(axis=1)


def _is_first(objects: Objects, among: np.ndarray, masks: np.ndarray | None) -> np.ndarray:
    """(M,) bool: the first of those that are equal in image, class, box and mask, among some of them."""
    masks = np.zeros(len(among)) if masks is None else masks
    rows = np.column_stack([objects.images, objects.classes, objects.ignored, masks, objects.boxes])[among]
    first = np.zeros(len(among), bool)
    if len(rows):
        first[np.flatnonzero(among)[np.unique(rows, axis=0, return_index=True)[1]]] = True
    return first


def remark(what: str, where: np.ndarray, images: Images) -> Remark:
    """What is wrong in the images of some indices, which may repeat."""
    return Remark(what, len(where), [images.paths[index] for index in dict.fromkeys(where.tolist())])


def sizes_that_differ(stated: Sequence[tuple[int, int] | None], images: Images) -> tuple[Remark, ...]:
    """What is wrong with the (height, width) that annotations state of each image, if they do."""
    sizes = map(tuple, images.sizes.tolist())
    wrong = [i for i, (said, size) in enumerate(zip(stated, sizes, strict=True)) if said and said != size]
    what = "image(s) have another size than their annotations say, whose boxes are taken as they are"
    return (remark(what, np.array(wrong), images),) if wrong else ()
