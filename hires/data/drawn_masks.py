"""Masks of classes, painted of the outlines of objects and kept like decoded files."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hires.data.box_folder import BoxSettings, Labelled
from hires.data.cache import Cache
from hires.data.file_source import cropped
from hires.data.mask_source import MaskedImages
from hires.data.pixels import PixelRules
from hires.data.segments import Segments
from hires.interfaces import IGNORE, Window
from hires.ops.labels import MOST_LABELS
from hires.settings import SettingError

_STRIP = 2**24  # pixels that are painted at a time


class Paint:
    """What an outline becomes in a mask: the index of its class, or its bit."""

    def __init__(self, names: tuple[str, ...], background: str | None, multilabel: bool):
        self.names = names if background is None or multilabel else (background, *names)
        self.multilabel, self._first = multilabel, len(self.names) - len(names)
        self.ground = IGNORE if background is None and not multilabel else 0
        self.fingerprint = repr((self._first, self.ground, multilabel))

    def over(self, under: np.ndarray, label: int, ignored: bool) -> np.ndarray | int:
        """What pixels become that an object of a class index covers; `under` is what they were."""
        if ignored:
            return IGNORE
        if not self.multilabel:
            return self._first + label
        return np.where(under == IGNORE, under, under | np.uint8(1 << label))


class PaintedMasks(MaskedImages):
    """A SegmentationSource of objects whose outlines are painted in their order, later ones on top."""

    def __init__(
        self, root: Path, read: Labelled, segments: Segments, paint: Paint, rules: PixelRules, cache: Cache
    ):
        super().__init__(root, read.images.paths, rules, cache, read.images.sizes)
        self.classes, self.multilabel = paint.names, paint.multilabel
        self.paint, self._segments, self._findings = paint, segments, read.findings
        self._labels, self._ignored = read.objects.classes, read.objects.ignored
        self._offsets = np.searchsorted(read.objects.images, np.arange(len(self) + 1))
        self._prints = np.array([self._fingerprint(index) for index in range(len(self))])

    def labels_read(self) -> tuple[list[str], tuple[np.ndarray, ...]]:
        return [], (self._prints,)

    def mask(self, index: int, window: Window | None = None) -> np.ndarray:
        path, variant = self.root / self.name(index), f"painted {self._prints[index]}"
        whole = Window(0, 0, *self.size(index))
        if window is not None and not self._cache.takes(path, whole.height * whole.width, variant):
            return self._painted(index, window)
        mask = self._cache.load(path, lambda _: self._painted(index, whole), variant)
        return mask if window is None else cropped(mask, window)

    def report(self) -> None:
        """Says once what was put right, or left out."""
        for remark in self._findings:
            remark.warn(self.root)

    def _rows(self, index: int) -> np.ndarray:
        return np.arange(self._offsets[index], self._offsets[index + 1])

    def _painted(self, index: int, window: Window) -> np.ndarray:
        top, first, height, width = window
        mask = np.full((height, width), self.paint.ground, np.uint8)
        step = max(1, _STRIP // height)  # run lengths go column by column
        for left in range(0, width, step):
            strip = Window(top, first + left, height, min(step, width - left))
            for row in self._rows(index):
                y, x, inside = self._segments.masks(np.array([row]), strip)[0]
                part = mask[y : y + inside.shape[0], left + x : left + x + inside.shape[1]]
                over = self.paint.over(part, int(self._labels[row]), bool(self._ignored[row]))
                np.copyto(part, np.asarray(over, np.uint8), where=inside)
        return mask

    def _fingerprint(self, index: int) -> str:
        """Names all that a mask depends on, besides the image file."""
        rows = self._rows(index)
        digest = hashlib.sha256(repr((self.paint.fingerprint, self.size(index))).encode())
        digest.update(self._labels[rows].tobytes() + self._ignored[rows].tobytes())
        for described in self._segments.described(rows):
            digest.update(repr([len(part) for part in described]).encode() + b"".join(described))
        return digest.hexdigest()[:40]


@dataclass(frozen=True, kw_only=True)
class DrawnMasks(BoxSettings):
    """Base of the settings of readers that make masks of classes out of outlines.

    Raises SettingError for a background that is a class, too.
    """

    background: str | None = "background"  # class of what no outline covers, the first one; null: it is ignored
    multilabel: bool = False  # a pixel may belong to several classes, or to none; there is no background then

    def wants_masks(self) -> bool:
        return True

    def source(self, split: str) -> PaintedMasks:
        read = self.labelled(split)
        names = checked_names(read.classes.names, self.background, self.multilabel)
        paint = Paint(names, self.background, self.multilabel)
        assert read.segments is not None  # as wants_masks says
        source = PaintedMasks(self.root_path(), read, read.segments, paint, self.pixel_rules(), self.cache())
        source.report()
        return source


def checked_names(names: tuple[str, ...], background: str | None, multilabel: bool) -> tuple[str, ...]:
    """The names of classes beside a background. Raises SettingError for too many, or the background's."""
    if background in names and not multilabel:
        raise SettingError("data.background", background, "a name that no class has, or null")
    most = MOST_LABELS if multilabel else IGNORE - (background is not None)
    if len(names) > most:
        allowed = f"1 to {most} classes" + (" with multilabel" if multilabel else " besides the background")
        raise SettingError("data.classes", f"{len(names)} classes", allowed)
    return names
