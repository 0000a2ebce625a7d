"""Which sample types images have here, and how others become one of them without loss."""

from pathlib import Path

import cv2
import numpy as np

from hires.data.formats.image_file import tell_once
from hires.interfaces import DataError

_KEPT = {np.dtype(kind) for kind in ("uint8", "uint16", "int16", "float32")}
_WIDER = {np.dtype("bool"): "uint8", np.dtype("int8"): "int16", np.dtype("float16"): "float32"}
_CHECKED = {np.dtype(kind) for kind in ("uint32", "int32", "uint64", "int64", "float64")}


def native(path: str | Path, dtype: np.dtype) -> np.dtype:
    """The type that an image of a stored type is read as. Raises DataError for those without one.

    uint8, uint16, int16 and float32 stay; bool becomes uint8 (0 and 255), int8 int16, float16 float32;
    32- and 64-bit types become float32: whole numbers if it holds every one exactly, float64 rounded.
    """
    dtype = dtype.newbyteorder("=")
    if dtype in _KEPT:
        return dtype
    if dtype in _WIDER:
        return np.dtype(_WIDER[dtype])
    if dtype in _CHECKED:
        return np.dtype("float32")
    raise DataError(f"{path}: samples of type {dtype} are no image; save it as uint8, uint16, int16 or float32")


def as_native(path: str | Path, array: np.ndarray) -> np.ndarray:
    """An array in the type that `native` names; one log line says so where floats are rounded.

    Raises DataError for whole numbers that would change, and for floats that would become infinite.
    """
    kind, target = array.dtype.newbyteorder("="), native(path, array.dtype)
    if kind == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if kind not in _CHECKED:
        return array.astype(target, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(target)
    if not _exact(result, array):
        if kind.kind == "f" and np.array_equal(np.isfinite(result), np.isfinite(array)):
            tell_once("of images of 64-bit floats the pixels are rounded to 32 bits")
            return result
        raise DataError(
            f"{path}: samples are {kind} with values that float32 cannot hold; save it as float32 or uint16"
        )
    return result


def _exact(result: np.ndarray, array: np.ndarray) -> bool:
    if array.dtype.kind == "f":
        return np.array_equal(result.astype(np.float64), array, equal_nan=True)
    # float32 of less than 2**63 is a whole int64; as floats, neighbours beyond 2**53 would look equal
    small = bool((np.abs(result) < 2.0**63).all())
    return small and np.array_equal(result.astype(np.int64), array.astype(np.int64))


def stretched(array: np.ndarray, bits: int) -> np.ndarray:
    """Gray values of `bits` < 8 bits over 0..255; others as they are."""
    return array if bits >= 8 else scaled(array, (1 << bits) - 1)


def scaled(array: np.ndarray, white: int) -> np.ndarray:
    """Values 0..`white` <= 255 over 0..255, rounded, uint8."""
    table = (np.arange(256) * 255 + white // 2) // white
    return table.clip(max=255).astype(np.uint8)[array]


def without_alpha(array: np.ndarray, bands: int) -> np.ndarray:
    """The first `bands` of (H, W) or (H, W, C)."""
    if array.ndim == 2 or array.shape[2] == bands:
        return array
    if (array.shape[2], bands) == (4, 3) and array.dtype in (np.uint8, np.uint16):
        return cv2.cvtColor(np.ascontiguousarray(array), cv2.COLOR_RGBA2RGB)
    return array[:, :, :bands]
