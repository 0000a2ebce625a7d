"""Turns the values that a mask file holds into class indices."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hires.interfaces import IGNORE, DataError
from hires.settings import SettingError

_HIGHEST = 2**16 - 1
_SHOWN = 5
_BAND = 128  # rows


class ClassTable:
    """Which mask values mean which class: `classes` maps names to values, in order of the class index.

    Raises SettingError for a table that is empty, too long, or gives a value two meanings.
    """

    def __init__(self, classes: Mapping[str, int | Sequence[int]], ignored: Sequence[int], unlisted: str):
        self.names = tuple(classes)
        values = [(v,) if isinstance(v, int) else tuple(v) for v in classes.values()]
        _check(classes, values, ignored)
        # one entry for every 8- or 16-bit value, the last one stands for all others
        self._to_index = np.full(_HIGHEST + 2, IGNORE, np.uint8)
        self._known = np.full(_HIGHEST + 2, unlisted == "ignore")
        self._known[list(ignored)] = True
        for index, several in enumerate(values):
            self._to_index[list(several)] = index
            self._known[list(several)] = True
        self.fingerprint = repr((values, sorted(ignored), unlisted))

    def map(self, mask: np.ndarray, path: Path) -> np.ndarray:
        """Raw values (H, W) as class indices or IGNORE, uint8. Raises DataError naming `path`."""
        result = np.empty(mask.shape, np.uint8)
        unknown = []
        for top in range(0, len(mask), _BAND):  # in bands: numpy's indices take eight bytes a pixel
            band = mask[top : top + _BAND]
            entries = band if band.itemsize <= 2 and band.dtype.kind == "u" else _clipped(band)
            result[top : top + _BAND] = self._to_index[entries]
            known = self._known[entries]
            if not known.all():
                unknown.append(band[~known])
        if unknown:
            self._refuse(np.concatenate(unknown), path)
        return result

    def _refuse(self, pixels: np.ndarray, path: Path) -> None:
        values, counts = np.unique(pixels, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:_SHOWN]
        listed = ", ".join(f"{values[i]} ({counts[i]} px)" for i in order)
        more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
        raise DataError(
            f"{path}: mask value(s) {listed}{more} are in no class; add them to data.classes or "
            "data.ignore_values, or set data.unlisted=ignore"
        )


def _clipped(values: np.ndarray) -> np.ndarray:
    return np.where((values < 0) | (values > _HIGHEST), _HIGHEST + 1, values)


def _check(classes: Mapping[str, object], values: Sequence[Sequence[int]], ignored: Sequence[int]) -> None:
    if not 1 <= len(classes) <= IGNORE:
        raise SettingError("classes", f"{len(classes)} classes", f"1 to {IGNORE} classes")
    seen: dict[int, str] = dict.fromkeys(ignored, "ignore_values")
    for name, several in zip(classes, values, strict=True):
        if not several:
            raise SettingError(f"classes.{name}", [], "at least one mask value")
        for value in several:
            if not 0 <= value <= _HIGHEST:
                raise SettingError(f"classes.{name}", value, f"mask values from 0 to {_HIGHEST}")
            if value in seen:
                raise SettingError(f"classes.{name}", value, f"a value used once; it is already in {seen[value]}")
            seen[value] = name
    if any(not 0 <= value <= _HIGHEST for value in ignored):
        raise SettingError("ignore_values", list(ignored), f"mask values from 0 to {_HIGHEST}")
