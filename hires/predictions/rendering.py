"""Images as people look at them: 8-bit colours, shrunk where they are large."""

import math
from pathlib import Path

import cv2
import numpy as np

from hires.engine.files import whole_file
from hires.interfaces import Normalization

_QUALITY = 90  # of JPEG
_ROWS = 256  # of a shrunk image that are made at a time
_TINT = 0.45  # share of a class's colour


def shrinking(size: tuple[int, int], most: int) -> int:
    """By what whole number an image of (height, width) is divided, so that its sides are at most `most`."""
    return math.ceil(max(size) / most)


def rendered(image: np.ndarray, normalization: Normalization, factor: int) -> np.ndarray:
    """(H, W, C) as colours (ceil(H / factor), ceil(W / factor), 3) uint8, read in bands.

    Red, green and blue are the first three channels, or the first one where there are fewer. Pixels of 8 bits that
    are normalised by their type stay as they are; others reach from `low` to `high` of the normalisation.
    """
    height, width = (-(-side // factor) for side in image.shape[:2])
    result = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, _ROWS):
        rows = min(_ROWS, height - top)
        band = np.asarray(image[top * factor : (top + rows) * factor])
        colours = _colours(band, normalization)
        if factor > 1:
            colours = cv2.resize(colours, (width, rows), interpolation=cv2.INTER_AREA)
        result[top : top + rows] = colours
    return result


def _colours(pixels: np.ndarray, normalization: Normalization) -> np.ndarray:
    channels = [0, 1, 2] if pixels.shape[2] >= 3 else [0, 0, 0]
    picked = np.ascontiguousarray(pixels[..., channels])
    if pixels.dtype == np.uint8 and normalization.method == "dtype":
        return picked
    low, high = (np.array(ends, np.float32)[channels] for ends in (normalization.low, normalization.high))
    scaled: np.ndarray = ((picked - low) * (255 / (high - low))).clip(0, 255)
    return scaled.astype(np.uint8)


def tint(image: np.ndarray, where: np.ndarray, colour: np.ndarray) -> None:
    """Mixes a colour (3,) into the pixels of an image (H, W, 3) uint8 at a mask (H, W) bool, in place."""
    image[where] = (image[where] * (1 - _TINT) + colour * _TINT).astype(np.uint8)


def write_jpeg(path: Path, image: np.ndarray) -> None:
    """Writes colours (H, W, 3) uint8."""
    done, content = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise OSError("OpenCV cannot encode it as JPEG")
    with whole_file(path) as file:
        file.write(content.tobytes())
