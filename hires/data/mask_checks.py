"""Looks at the masks of a source for what is probably not meant: one warning each."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from hires.data.cache import Cache
from hires.data.class_table import ClassTable
from hires.data.class_values import colour_text
from hires.data.colours import palette_header, used_colours
from hires.data.pairs import some
from hires.interfaces import DataError
from hires.ops.labels import holds

log = logging.getLogger(__name__)

_BAND = 512  # rows


def warn_of_palettes(root: Path, masks: Iterable[str], cache: Cache) -> None:
    """Warns where an index has another colour in another file: the indices are then hardly classes.

    Reads headers only, unless their palettes differ; what they differ in may be used nowhere.
    """
    headers = {path: header for path in masks if (header := palette_header(root / path)) is not None}
    if len(set(headers.values())) < 2:
        return
    seen: dict[int, tuple[int, str]] = {}
    for path in headers:
        for index, colour in _used(root / path, cache):
            first, where = seen.setdefault(index, (colour, path))
            if first != colour:
                log.warning(
                    "%s: masks have different palettes: %d is %s in %s and %s in %s; if it is the colours that "
                    "count, list colours in data.classes instead of values",
                    *(root, index, colour_text(first), where, colour_text(colour), path),
                )
                return


def warn_of_folders(root: Path, table: ClassTable, masks: Sequence[str]) -> None:
    """Warns of folders that the class table names and no mask lies below: probably a mistyped name."""
    absent = table.folders - {table.folder_of(mask) for mask in masks}
    if absent:
        log.warning("%s: no mask lies below %s, which data.classes names", root, ", ".join(sorted(absent)))


def warn_of_empty(root: Path, empty: Sequence[str]) -> None:
    """Warns of masks that lie in a folder of the class table and show none of its classes."""
    if empty:
        log.warning(
            "%s: %d mask(s) hold no pixel of the class of their folder: %s; they count as they are, complete "
            "or remove those that are not meant so",
            *(root, len(empty), some(empty)),
        )


def shows(mask: np.ndarray, classes: Iterable[int], multilabel: bool) -> bool:
    """Whether a mapped mask holds a pixel of any of the classes."""
    wanted = list(classes)
    bands = (mask[top : top + _BAND] for top in range(0, len(mask), _BAND))
    return any(holds(band, index, multilabel).any() for band in bands for index in wanted)


def _used(path: Path, cache: Cache) -> list[list[int]]:
    try:
        return cache.load(path, used_colours, variant="palette").tolist()
    except DataError:
        return []
