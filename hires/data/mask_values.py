"""What stands for the classes in a data set's own mask files."""

from typing import Any, NamedTuple

from hires.data.class_values import ClassValues


class MaskValues(NamedTuple):
    """The first value of each class, in the order of their indices."""

    numbers: tuple[int, ...]  # values, or colours as 0xRRGGBB
    are_colours: bool


def mask_values(settings: Any) -> MaskValues | None:
    """Those of the settings of a reader; None where its data has no mask files of classes."""
    if not hasattr(settings, "background_values"):
        return None
    table = ClassValues(settings.classes, settings.ignore_values, settings.background_values, settings.multilabel)
    return MaskValues(tuple(several[0].number for several in table.classes.values()), table.is_colour)
