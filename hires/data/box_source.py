"""The images of one split with the objects in them, as packed arrays."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hires.data.box_checks import Remark
from hires.data.box_classes import BoxClasses
from hires.data.box_objects import Images, Objects
from hires.data.box_targets import BoxTargets
from hires.data.cache import Cache
from hires.data.file_source import FileSource
from hires.data.pixels import PixelRules
from hires.data.segments import Segments
from hires.data.settings import WindowSettings
from hires.interfaces import Window

log = logging.getLogger(__name__)


class BoxSource(FileSource):
    """A DetectionSource of objects that were read before. Classes of `objects` are class indices.

    `segments`: the masks of the objects, in their order, or None. `findings`: what `report` tells.
    """

    def __init__(
        self,
        root: Path,
        images: Images,
        objects: Objects,
        classes: BoxClasses,
        rules: PixelRules,
        cache: Cache,
        segments: Segments | None = None,
        findings: Sequence[Remark] = (),
    ):
        super().__init__(root, images.paths, rules, cache, images.sizes)
        self.classes, self.category_ids = classes.names, classes.ids
        self.instance_masks = segments is not None
        self._segments, self._findings = segments, findings
        self._image_ids = images.ids
        self._offsets = np.searchsorted(objects.images, np.arange(len(images.paths) + 1))
        self._boxes, self._labels = objects.boxes.astype(np.float32), objects.classes
        self._ignored, self._ids = objects.ignored, objects.ids
        sides = objects.boxes[:, 2:] - objects.boxes[:, :2]
        self._areas = np.where(np.isnan(objects.areas), sides.prod(axis=1), objects.areas).astype(np.float32)

    def labels_read(self) -> tuple[tuple[str, ...], tuple[np.ndarray, ...]]:
        return (), (self._offsets, self._boxes, self._labels, self._ignored)

    def targets(self, settings: WindowSettings) -> BoxTargets:
        return BoxTargets(self, settings)

    def image_id(self, index: int) -> int:
        return int(self._image_ids[index])

    def objects(self, index: int) -> dict[str, np.ndarray]:
        return self._target(index, Window(0, 0, *self.size(index)), masks=False)

    def read(self, index: int, window: Window | None = None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Image (H, W, C) and the objects of the window or whole; the image as `pixels` gives it."""
        image = self.pixels(index, window)
        corner = (0, 0) if window is None else (window.y, window.x)
        return image, self._target(index, Window(*corner, *image.shape[:2]), self.instance_masks)

    def _target(self, index: int, window: Window, masks: bool) -> dict[str, np.ndarray]:
        boxes = self._boxes[self._offsets[index] : self._offsets[index + 1]]
        corner, size = np.array([window.x, window.y]), np.array([window.width, window.height])
        low, high = np.maximum(boxes[:, :2], corner), np.minimum(boxes[:, 2:], corner + size)
        rows = self._offsets[index] + np.flatnonzero((low < high).all(axis=1))
        target = {
            "boxes": self._boxes[rows] - np.tile(corner, 2).astype(np.float32),
            "labels": self._labels[rows],
            "ignored": self._ignored[rows],
            "areas": self._areas[rows],
            "ids": self._ids[rows],
            "size": np.array([window.height, window.width], np.int64),
        }
        if self._segments is not None and masks:
            target["masks"] = self._segments.masks(rows, window)
        return target

    def report(self) -> None:
        """Says once what was put right, and which classes no object has."""
        for remark in self._findings:
            remark.warn(self.root)
        counts = np.bincount(self._labels[~self._ignored], minlength=len(self.classes))
        unused = [name for name, count in zip(self.classes, counts, strict=True) if not count]
        if unused:
            log.info("%s: no object of these images is %s", self.root, ", ".join(unused))
