"""Turns pixels, sizes and windows as the orientation (1 to 8) of EXIF and TIFF says."""

import struct

import cv2
import numpy as np

from hires.interfaces import Window

_MIRROR_X, _MIRROR_Y, _SWAP = (2, 3, 6, 7), (3, 4, 7, 8), (5, 6, 7, 8)  # sides are swapped first
_TAG, _SHORT = 274, 3


def upright_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """(height, width) of the upright image, of those stored."""
    return (size[1], size[0]) if orientation in _SWAP else size


def upright(array: np.ndarray, orientation: int) -> np.ndarray:
    """(H, W, C) as stored, turned upright; contiguous."""
    if orientation in _SWAP:
        array = _transposed(array)
    return np.ascontiguousarray(mirrored(array, orientation))


def mirrored(array: np.ndarray, orientation: int) -> np.ndarray:
    """The part of an orientation that swaps no sides; done twice it is undone. A view."""
    rows = slice(None, None, -1 if orientation in _MIRROR_Y else 1)
    columns = slice(None, None, -1 if orientation in _MIRROR_X else 1)
    return array[rows, columns]


def _transposed(array: np.ndarray) -> np.ndarray:
    height, width, bands = array.shape
    if bands > 4:
        return array.transpose(1, 0, 2)
    return cv2.transpose(np.ascontiguousarray(array)).reshape(width, height, bands)  # in blocks, ten times as fast


def stored_window(window: Window, size: tuple[int, int], orientation: int) -> Window:
    """The part of the stored image that the window of the upright one shows; `size` is the stored one."""
    y, x, height, width = window
    rows, columns = upright_size(size, orientation)
    if orientation in _MIRROR_Y:
        y = rows - y - height
    if orientation in _MIRROR_X:
        x = columns - x - width
    return Window(x, y, width, height) if orientation in _SWAP else Window(y, x, height, width)


def exif_orientation(block: bytes) -> int:
    """The orientation in an EXIF block (a TIFF header and directory, maybe after "Exif"), 1 if there is none."""
    block = block.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None or len(block) < 10:
        return 1
    start = struct.unpack_from(f"{order}I", block, 4)[0]
    entries = block[start + 2 :]
    count = struct.unpack_from(f"{order}H", block, start)[0] if start + 2 <= len(block) else 0
    for at in range(0, min(12 * count, len(entries) - 11), 12):
        tag, kind, _, value = struct.unpack_from(f"{order}HHIH", entries, at)
        if (tag, kind) == (_TAG, _SHORT):
            return valid_orientation(value)
    return 1


def valid_orientation(value: object) -> int:
    """An orientation as told by a file; 1 for what is none."""
    return int(value) if isinstance(value, int) and 1 <= value <= 8 else 1
