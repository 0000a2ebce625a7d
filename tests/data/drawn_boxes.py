"""A source of images with boxes that are made on the spot."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from hires.data.box_targets import BoxTargets
from hires.ops.instances import InstanceMask


def colour(ident: int) -> np.ndarray:
    """A colour of another hue than that of any other of the 36 objects that an image may have; (3,) uint8."""
    return np.array([60 + 39 * (ident % 6), 60 + 39 * (ident // 6), 255], np.uint8)


@dataclass
class Boxes:
    """Images of `sizes` (height, width), black but for one filled rectangle an object in a colour of its own.

    `boxes`: for each image (N, 4) whole pixels; later objects lie on top.
    """

    sizes: list
    boxes: list
    labels: list
    ignored: list = None
    classes: tuple = ("car", "bus", "van")
    instance_masks: bool = False
    root: Path = Path("set")
    category_ids: tuple = (1, 2, 3)
    reads: list = field(default_factory=list)

    def __post_init__(self):
        self.boxes = [np.array(boxes, np.float32).reshape(-1, 4) for boxes in self.boxes]
        self.ignored = self.ignored or [[False] * len(boxes) for boxes in self.boxes]
        self.image = cache(self._image)

    def __len__(self):
        return len(self.sizes)

    def name(self, index):
        return f"images/{index}.png"

    def image_id(self, index):
        return index + 1

    def size(self, index):
        return self.sizes[index]

    def targets(self, settings):
        return BoxTargets(self, settings)

    def objects(self, index):
        return self._target(index, 0, 0, self.sizes[index])

    def read(self, index, window=None):
        y, x, height, width = window or (0, 0, *self.sizes[index])
        self.reads.append((index, y, x, height, width))
        return self.image(index)[y : y + height, x : x + width].copy(), self._target(index, y, x, (height, width))

    def _image(self, index):
        image = np.zeros((*self.sizes[index], 3), np.uint8)
        for ident, (x1, y1, x2, y2) in enumerate(self.boxes[index].astype(int)):
            image[max(0, y1) : max(0, y2), max(0, x1) : max(0, x2)] = colour(ident)
        return image

    def _target(self, index, y, x, size):
        boxes = self.boxes[index] - np.array([x, y, x, y], np.float32)
        near = ((boxes[:, 2:] > 0) & (boxes[:, :2] < size[::-1])).all(axis=1)
        target = {
            "boxes": boxes[near],
            "labels": np.array(self.labels[index], np.int64)[near],
            "ignored": np.array(self.ignored[index], bool)[near],
            "areas": np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)[near],
            "ids": np.flatnonzero(near),
            "size": np.array(size, np.int64),
        }
        if self.instance_masks:
            target["masks"] = np.empty(near.sum(), object)
            target["masks"][:] = [rectangle(box) for box in boxes[near]]
        return target


def rectangle(box):
    """The InstanceMask of all of a box."""
    x1, y1, x2, y2 = np.asarray(box).astype(int)
    return InstanceMask(int(y1), int(x1), np.ones((y2 - y1, x2 - x1), bool))
