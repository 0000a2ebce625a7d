"""Reads data sets that are folders of images and folders of masks, paired by their names."""

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from hires.data.class_table import ClassTable
from hires.data.class_values import Given
from hires.data.folds import Folds, check_folds, check_groups
from hires.data.mask_checks import warn_of_folders, warn_of_palettes
from hires.data.mask_source import MaskSource as MaskSource
from hires.data.pairs import find_pairs
from hires.data.settings import DataSettings
from hires.data.splits import check_splits, split_pairs
from hires.interfaces import ConfigError, DataError
from hires.settings import Bounds


@dataclass(frozen=True, kw_only=True)
class MaskFolder(DataSettings):
    """Images and masks below `root`; a pair is what the wildcards of both globs matched alike.

    Raises ConfigError (SettingError) for a class table or splits that cannot be meant so.
    """

    images: str  # glob relative to root, such as */images/*.jpg; ** matches any number of folders, or none
    masks: str  # glob relative to root, such as */mask/*.tif
    classes: dict[str, int | str | tuple[Given, ...]]  # name -> value(s); the order gives the class index
    unlisted: Literal["error", "ignore"] = "error"  # mask values that are in no class
    ignore_values: tuple[Given, ...] = ()  # mask values that neither loss nor metric counts
    threshold: Annotated[float, Bounds(0, 65534)] | None = None  # higher mask values become 255, others 0
    multilabel: bool = False  # a pixel may belong to several classes, or to none
    background_values: tuple[Given, ...] | None = None  # with multilabel: values of no class; default: 0 or black
    splits: dict[str, Any] = field(default_factory=lambda: {"val": 0.2})  # see hires.data.splits
    split_seed: Annotated[int, Bounds(0)] = 0  # another one gives other images to the fractions and folds
    fold: Annotated[int, Bounds(0)] | None = None  # the part of the images that is `val`; `train` is the others
    folds: Annotated[int, Bounds(2)] = 5  # number of those parts
    groups: str | None = None  # regular expression: images in whose path it matches the same text stay together

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splits(self.splits)
        check_groups(self.groups)
        if self.fold is not None:
            check_folds(self.fold, self.folds, self.splits)
        self.table()

    def table(self) -> ClassTable:
        return ClassTable(
            self.classes,
            self.ignore_values,
            self.unlisted,
            background=self.background_values,
            multilabel=self.multilabel,
            threshold=self.threshold,
        )

    def has_split(self, split: str) -> bool:
        folded = self.fold is not None and split == "val"
        return split == "train" or folded or self.splits.get(split) is not None

    def source(self, split: str) -> MaskSource:
        root = self.root_path()
        pairs = find_pairs(root, self.images, self.masks)
        folds = None if self.fold is None else Folds(self.fold, self.folds)
        splits = split_pairs(root, pairs, self.splits, self.split_seed, groups=self.groups, folds=folds)
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
        table = self.table()
        warn_of_folders(root, table, [pair.mask for pair in pairs])
        source = MaskSource(root, splits[split], table, self.channels, self.cache())
        if not source.table.is_colour:  # of all splits: they may have been exported one by one
            warn_of_palettes(root, (pair.mask for pair in pairs), self.cache())
        source.report()
        return source
