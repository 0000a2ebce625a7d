"""Reads data sets that are folders of images and folders of masks, paired by their names."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from hires.data.class_table import ClassTable
from hires.data.class_values import Given
from hires.data.mask_checks import warn_of_folders, warn_of_palettes
from hires.data.mask_source import MaskSource
from hires.data.pairs import find_pairs
from hires.data.split_settings import SplitSettings
from hires.settings import Bounds, SettingError


@dataclass(frozen=True, kw_only=True)
class MaskFolder(SplitSettings):
    """Images and masks below `root`; a pair is what the wildcards of both globs matched alike.

    Raises ConfigError (SettingError) for a class table or splits that cannot be meant so.
    """

    images: str  # glob relative to root, such as */images/*.jpg; ** matches any number of folders, or none
    masks: str  # glob relative to root, such as */mask/*.tif
    classes: dict[str, int | str | tuple[Given, ...]]  # name -> value(s); a list: names of 0, 1, ...; in order
    unlisted: Literal["error", "ignore"] = "error"  # mask values that are in no class
    ignore_values: tuple[Given, ...] = ()  # mask values that neither loss nor metric counts
    threshold: Annotated[float, Bounds(0, 65534)] | None = None  # higher mask values become 255, others 0
    multilabel: bool = False  # a pixel may belong to several classes, or to none
    background_values: tuple[Given, ...] | None = None  # with multilabel: values of no class; default: 0 or black
    missing_labels: Literal["error", "skip"] = "error"  # images without mask; skip leaves them out

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", _by_name(self.classes))
        super().__post_init__()
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

    def source(self, split: str) -> MaskSource:
        root = self.root_path()
        pairs = find_pairs(root, self.images, self.masks, self.missing_labels, self.exclude)
        members = self.members(split, pairs)
        table = self.table()
        warn_of_folders(root, table, [pair.truth for pair in pairs])
        source = MaskSource(root, members, table, self.pixel_rules(), self.cache())
        if not source.table.is_colour:  # of all splits: they may have been exported one by one
            warn_of_palettes(root, (pair.truth for pair in pairs), self.cache())
        source.report()
        return source


def _by_name(classes: Any) -> Any:
    """A list of names as the mapping that it stands for; anything else as it is. Raises SettingError."""
    if not isinstance(classes, (list, tuple)) or not all(isinstance(name, str) for name in classes):
        return classes
    if len(set(classes)) < len(classes):
        raise SettingError("classes", list(classes), "each name once")
    return {name: value for value, name in enumerate(classes)}
