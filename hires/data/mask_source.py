"""The images of one split with their masks, decoded once and mapped to classes."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from hires.data.cache import Cache
from hires.data.class_table import ClassTable
from hires.data.file_source import LARGE, FileSource, cropped
from hires.data.images import image_info, image_size
from hires.data.mask_checks import shows, warn_of_empty
from hires.data.mask_targets import MaskTargets
from hires.data.pairs import Pair
from hires.data.pixels import PixelRules
from hires.data.settings import WindowSettings
from hires.interfaces import DataError, Window
from hires.ops.windows import Size


class MaskedImages(FileSource):
    """Base of SegmentationSources. Masks are (H, W) uint8 class indices, IGNORE where nothing counts.

    With `multilabel` they are bit fields.
    """

    classes: tuple[str, ...]
    multilabel: bool

    @abstractmethod
    def mask(self, index: int, window: Window | None = None) -> np.ndarray:
        """The window of a mask, a copy, without the image. Raises DataError.

        Without window the whole mask, maybe a read-only memory map.
        """

    def read(self, index: int, window: Window | None = None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Image (H, W, C) and {"mask": (H, W) uint8} of the window or whole.

        A window is a copy; a whole array may be a read-only memory map. Raises DataError.
        """
        mask = self.mask(index, window)
        return self.pixels(index, window), {"mask": mask}

    def targets(self, settings: WindowSettings) -> MaskTargets:
        return MaskTargets(self, settings)


class MaskSource(MaskedImages):
    """The pairs of one split. Raises DataError for a mask below two folders of the class table."""

    def __init__(self, root: Path, pairs: Sequence[Pair], table: ClassTable, rules: PixelRules, cache: Cache):
        super().__init__(root, [pair.image for pair in pairs], rules, cache)
        self.classes, self.multilabel = table.names, table.multilabel
        self.table = table
        self._masks = np.array([pair.truth for pair in pairs])
        self._folders = np.array([table.folder_of(pair.truth) for pair in pairs])
        self._known = np.zeros(len(pairs), [("known", "?"), ("windowed", "?"), ("torn", "?")])

    def labels_read(self) -> tuple[list[str], tuple[np.ndarray, ...]]:
        return self._masks.tolist(), ()

    def mask(self, index: int, window: Window | None = None) -> np.ndarray:
        if window is None:
            return self._whole(index)
        if self._mask_by_windows(index):
            return self._part(index, window)
        try:
            return cropped(self._whole(index), window)
        except DataError:
            if not self._of_mask(index)["windowed"]:
                raise
            self._known[index]["torn"] = True  # as of images
            return self._part(index, window)

    def _mask_by_windows(self, index: int) -> bool:
        """As of images: whether windows are read from the file itself."""
        kind, count = self._of_mask(index), math.prod(self.size(index))
        if not kind["windowed"]:
            return False
        if kind["torn"] or count > LARGE:
            return True
        return not self._cache.takes(self._mask_path(index), count, self._variant_of_mask(index))

    def _of_mask(self, index: int) -> np.void:
        if not self._known[index]["known"]:
            info = image_info(self._mask_path(index))
            self._check_size(self._mask_path(index), info.size, index)
            self._known[index] = (True, info.windowed, False)
        kind: np.void = self._known[index]
        return kind

    def _mask_path(self, index: int) -> Path:
        return self.root / str(self._masks[index])

    def _variant_of_mask(self, index: int) -> str:
        return self.table.fingerprint + str(self._folders[index])

    def _part(self, index: int, window: Window) -> np.ndarray:
        return self.table.read(self._mask_path(index), str(self._folders[index]), window)

    def _whole(self, index: int) -> np.ndarray:
        # the mapped mask is kept, not the raw one: its values are then checked once, and a window is a
        # mere slice of one byte a pixel; the price is a new entry when the class table changes
        path, folder = self._mask_path(index), str(self._folders[index])
        decode = partial(self._decoded, index=index, folder=folder)
        mask = self._cache.load(path, decode, self._variant_of_mask(index))
        self._check_size(path, mask.shape[:2], index)  # one that was kept, beside another image
        return mask

    def _decoded(self, path: Path, index: int, folder: str) -> np.ndarray:
        self._check_size(path, image_size(path), index)  # a header can promise any number of pixels
        return self.table.read(path, folder)

    def _check_size(self, path: Path, size: Size, index: int) -> None:
        if size != self.size(index):
            raise DataError(
                f"{path}: mask is {size[0]}x{size[1]} (height x width), its image "
                f"{self.root / self.name(index)} {'x'.join(map(str, self.size(index)))}; make them equal"
            )

    def report(self) -> None:
        """Warns of masks that are probably not meant so; broken ones raise when they are read, not here."""
        warn_of_empty(self.root, [str(self._masks[index]) for index in range(len(self)) if self._is_empty(index)])

    def _is_empty(self, index: int) -> bool:
        classes = self.table.classes_of(str(self._folders[index]))
        if not classes:
            return False
        try:
            return not shows(self.mask(index), classes, self.multilabel)
        except DataError:
            return False
