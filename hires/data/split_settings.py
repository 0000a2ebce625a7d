"""Settings of readers that find all images of a set and divide them into splits."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from hires.data.folds import Folds, check_folds, check_groups
from hires.data.glob_keys import matches_any
from hires.data.images import image_info
from hires.data.pairs import Pair
from hires.data.settings import DataSettings
from hires.data.split_lists import Missing
from hires.data.splits import check_splits, split_pairs
from hires.interfaces import ConfigError, DataError
from hires.settings import Bounds

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SplitSettings(DataSettings):
    """Which images are in which split. Raises SettingError for splits that cannot be meant so."""

    splits: dict[str, Any] = field(default_factory=lambda: {"val": 0.2})  # see hires.data.splits
    missing_entries: Literal["error", "skip"] = "error"  # what lists name and is no image
    split_seed: Annotated[int, Bounds(0)] = 0  # another one gives other images to the fractions and folds
    fold: Annotated[int, Bounds(0)] | None = None  # the part of the images that is `val`; `train` is the others
    folds: Annotated[int, Bounds(2)] = 5  # number of those parts
    groups: str | None = None  # regular expression: images in whose path it matches the same text stay together
    exclude: tuple[str, ...] = ()  # globs of paths relative to root, which are left out

    def __post_init__(self) -> None:
        super().__post_init__()
        check_splits(self.splits)
        check_groups(self.groups)
        if self.fold is not None:
            check_folds(self.fold, self.folds, self.splits)

    def has_split(self, split: str) -> bool:
        folded = self.fold is not None and split == "val"
        return split == "train" or folded or self.splits.get(split) is not None

    def members(self, split: str, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs of one split. Raises ConfigError for an unknown one, DataError for an empty one."""
        root = self.root_path()
        splits = split_pairs(
            root,
            self.kept(pairs),
            self.splits,
            self.split_seed,
            groups=self.groups,
            folds=None if self.fold is None else Folds(self.fold, self.folds),
            missing=Missing(skip=self.missing_entries == "skip", told=split),
        )
        counts = ", ".join(f"{name} {len(members)}" for name, members in splits.items())
        if split not in splits:
            near = get_close_matches(split, splits, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"split: got {split!r}, allowed (with images): {counts}{hint}")
        if not splits[split]:
            rule = self.splits.get(split)
            given = "" if rule is None else f", by data.splits.{split}={rule}"
            raise DataError(
                f"{root}: split {split!r} has no image ({counts}){given}; change data.splits"
                f"{'' if split == 'train' else f', or set data.splits.{split}=null'}"
            )
        return self.readable(splits[split], split)

    def kept(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs whose image no glob of `exclude` matches."""
        return [pair for pair in pairs if not matches_any(pair.image, self.exclude)]

    def readable(self, pairs: list[Pair], split: str) -> list[Pair]:
        """Those whose image says how large it is, where broken files are skipped. Raises DataError if few do."""
        if self.on_error != "skip":
            return pairs
        readable = []
        for pair in pairs:
            try:
                image_info(self.root_path() / pair.image)
            except DataError as error:
                log.warning("%s; left out of %s, by data.on_error=skip", error, split)
            else:
                readable.append(pair)
        if len(readable) < len(pairs) / 2:
            raise DataError(
                f"{self.root_path()}: of {len(pairs)} images of split {split!r} only {len(readable)} can be read; "
                "data.on_error=skip takes at most half of them for broken"
            )
        return readable
