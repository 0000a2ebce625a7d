"""The images of one split with their masks, decoded once and mapped to classes."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from hires.data.cache import NoCache
from hires.data.class_table import ClassTable
from hires.data.file_source import FileSource, cropped
from hires.data.images import image_size
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
    def mask(self, index: int) -> np.ndarray:
        """The whole mask without the image; maybe a read-only memory map. Raises DataError."""

    def read(self, index: int, window: Window | None = None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Image (H, W, C) and {"mask": (H, W) uint8} of the window or whole.

        A window is a copy; a whole array may be a read-only memory map. Raises DataError.
        """
        mask = self.mask(index)
        image = self.pixels(index, window)
        return image, {"mask": mask if window is None else cropped(mask, window)}

    def targets(self, settings: WindowSettings) -> MaskTargets:
        return MaskTargets(self, settings)


class MaskSource(MaskedImages):
    """The pairs of one split. Raises DataError for a mask below two folders of the class table."""

    def __init__(self, root: Path, pairs: Sequence[Pair], table: ClassTable, rules: PixelRules, cache: NoCache):
        super().__init__(root, [pair.image for pair in pairs], rules, cache)
        self.classes, self.multilabel = table.names, table.multilabel
        self.table = table
        self._masks = np.array([pair.truth for pair in pairs])
        self._folders = np.array([table.folder_of(pair.truth) for pair in pairs])

    def mask(self, index: int) -> np.ndarray:
        # the mapped mask is kept, not the raw one: its values are then checked once, and a window is a
        # mere slice of one byte a pixel; the price is a new entry when the class table changes
        path, folder = self.root / str(self._masks[index]), str(self._folders[index])
        decode = partial(self._decoded, index=index, folder=folder)
        mask = self._cache.load(path, decode, self.table.fingerprint + folder)
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
