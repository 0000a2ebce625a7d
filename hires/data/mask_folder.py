"""Reads data sets that are folders of images and folders of single-channel masks, paired by their names."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from hires.data.cache import NoCache
from hires.data.class_table import ClassTable
from hires.data.images import image_size, read_image, read_mask, to_channels
from hires.data.pairs import Pair, find_pairs
from hires.data.settings import DataSettings
from hires.data.splits import check_splits, split_pairs
from hires.interfaces import ConfigError, DataError, Window
from hires.settings import Bounds


@dataclass(frozen=True, kw_only=True)
class MaskFolder(DataSettings):
    """Images and masks below `root`; a pair is what the wildcards of both globs matched alike.

    Raises ConfigError (SettingError) for a class table or splits that cannot be meant so.
    """

    images: str  # glob relative to root, such as */images/*.jpg; ** matches any number of folders, or none
    masks: str  # glob relative to root, such as */mask/*.tif
    classes: dict[str, int | tuple[int, ...]]  # name -> mask value(s); the order gives the class index
    unlisted: Literal["error", "ignore"] = "error"  # mask values that are in no class
    ignore_values: tuple[int, ...] = ()  # mask values that neither loss nor metric counts
    splits: dict[str, Any] = field(default_factory=lambda: {"val": 0.2})  # see hires.data.splits
    split_seed: Annotated[int, Bounds(0)] = 0  # another one gives other images to the fractions

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splits(self.splits)
        self.table()

    def table(self) -> ClassTable:
        return ClassTable(self.classes, self.ignore_values, self.unlisted)

    def has_split(self, split: str) -> bool:
        return split == "train" or self.splits.get(split) is not None

    def source(self, split: str) -> "MaskSource":
        root = self.root_path()
        pairs = find_pairs(root, self.images, self.masks)
        splits = split_pairs(root, pairs, self.splits, self.split_seed)
        counts = ", ".join(f"{name} {len(members)}" for name, members in splits.items())
        if split not in splits:
            near = get_close_matches(split, splits, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"split: got {split!r}, allowed (with images): {counts}{hint}")
        if not splits[split]:
            raise DataError(
                f"{root}: split {split!r} has no image ({counts}); change data.splits, or set "
                f"data.splits.{split}=null"
            )
        return MaskSource(root, splits[split], self.table(), self.channels, self.cache())


class MaskSource:
    """The pairs of one split. Masks come as (H, W) uint8 class indices, IGNORE where nothing counts."""

    def __init__(self, root: Path, pairs: Sequence[Pair], table: ClassTable, channels: int, cache: NoCache):
        self.classes = table.names
        self.root, self.channels = root, channels
        self._table, self._cache = table, cache
        # arrays, not lists: worker processes share their pages, and counting references copies none
        self._images = np.array([pair.image for pair in pairs])
        self._masks = np.array([pair.mask for pair in pairs])
        self._sizes = np.zeros((len(pairs), 2), np.int64)

    def __len__(self) -> int:
        return len(self._images)

    def name(self, index: int) -> str:
        return str(self._images[index])

    def size(self, index: int) -> tuple[int, int]:
        if not self._sizes[index, 0]:
            self._sizes[index] = image_size(self.root / self.name(index))
        height, width = self._sizes[index]
        return int(height), int(width)

    def mask(self, index: int) -> np.ndarray:
        """The whole mapped mask without the image; maybe a read-only memory map. Raises DataError."""
        # the mapped mask is kept, not the raw one: its values are then checked once, and a window is a
        # mere slice of one byte a pixel; the price is a new entry when the class table changes
        path = self.root / str(self._masks[index])
        mask = self._cache.load(path, self._decode_mask, variant=self._table.fingerprint)
        if mask.shape != self.size(index):
            raise DataError(
                f"{path}: mask is {mask.shape[0]}x{mask.shape[1]} (height x width), its image "
                f"{self.root / self.name(index)} {'x'.join(map(str, self.size(index)))}; make them equal"
            )
        return mask

    def read(self, index: int, window: Window | None = None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Image (H, W, C) uint8 and {"mask": (H, W) uint8} of the window or whole.

        A window is a copy; a whole array may be a read-only memory map. Raises DataError.
        """
        mask = self.mask(index)
        image = self._cache.load(self.root / self.name(index), read_image)
        if window is not None:
            rows = slice(window.y, window.y + window.height)
            columns = slice(window.x, window.x + window.width)
            image, mask = np.array(image[rows, columns]), np.array(mask[rows, columns])
        return to_channels(image, self.channels), {"mask": mask}

    def _decode_mask(self, path: Path) -> np.ndarray:
        return self._table.map(read_mask(path), path)
