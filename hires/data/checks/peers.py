"""Where `cv2.imread`, which most programs read images with, gives another array than ours."""

from pathlib import Path

import cv2
import numpy as np

from hires.data.checks.headers import Header
from hires.data.images import ImageInfo

_MOST_PIXELS = 2**26  # what is larger is not decoded once more
_USUAL = {"BMP", "GIF", "JPEG", "MPO", "PNG", "PPM", "WEBP"}
_PLAIN = {"L", "RGB"}  # without alpha or palette


def differs(path: Path, info: ImageInfo, header: Header) -> str:
    """How size, bands or type differ, in words, or "". Upright 8-bit gray and RGB of usual formats do not."""
    plain = info.dtype == np.uint8 and header.mode in _PLAIN and info.orientation == 1
    if (plain and info.format.upper() in _USUAL) or info.size[0] * info.size[1] > _MOST_PIXELS:
        return ""
    level = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        plainly = cv2.imread(str(path))
        unchanged = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        plainly = unchanged = None
    finally:
        cv2.utils.logging.setLogLevel(level)
    if unchanged is None:
        return "not at all"
    got, ours = _described(unchanged), (info.size, info.bands, info.dtype)
    if got != ours:
        return f"as {_text(got)} instead of {_text(ours)}, unchanged"
    if plainly is not None and plainly.dtype != info.dtype:
        return f"as {_text(_described(plainly))} unless asked for it unchanged"
    return ""


def _described(image: np.ndarray) -> tuple[tuple[int, int], int, np.dtype]:
    height, width = image.shape[:2]
    return (height, width), image.shape[2] if image.ndim == 3 else 1, image.dtype


def _text(array: tuple[tuple[int, int], int, np.dtype]) -> str:
    (height, width), bands, dtype = array
    return f"{height}x{width}, {bands} band{'s' if bands != 1 else ''} of {dtype}"
