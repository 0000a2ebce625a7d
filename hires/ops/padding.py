"""Padding and resizing arrays to the size that the network sees. Content stays at the top left."""

import cv2
import numpy as np

_CHANNELS = 4  # that OpenCV averages at once


def pad_to(array: np.ndarray, height: int, width: int, value: int | None = None) -> np.ndarray:
    """Pads (H, W) or (H, W, C) below and to the right to `height` x `width` pixels.

    `value` fills the new pixels; without it they mirror the content (as often as needed, so that even a
    single pixel fills any size). Returns the array itself where nothing is to be padded.
    Raises ValueError if the array is larger than asked.
    """
    below, right = height - array.shape[0], width - array.shape[1]
    if below < 0 or right < 0:
        raise ValueError(f"cannot pad {array.shape[:2]} to the smaller {(height, width)}")
    if below == 0 and right == 0:
        return array
    pads = [(0, below), (0, right)] + [(0, 0)] * (array.ndim - 2)
    if value is None:
        return np.pad(array, pads, mode="reflect")
    return np.pad(array, pads, mode="constant", constant_values=value)


def fitted_size(size: tuple[int, int], limit: tuple[int, int]) -> tuple[int, int]:
    """The largest (height, width) with the aspect of `size` that lies within `limit`; at least 1 pixel."""
    scale = min(limit[0] / size[0], limit[1] / size[1])
    height, width = (min(most, max(1, round(side * scale))) for side, most in zip(size, limit, strict=True))
    return height, width


def resize_image(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resizes an image (H, W, C) to `size` (height, width): shrinks by area averages, enlarges bilinearly."""
    if image.shape[:2] == tuple(size):
        return image
    shrinks = size[0] < image.shape[0] or size[1] < image.shape[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    starts = range(0, image.shape[2], _CHANNELS)
    parts = [np.ascontiguousarray(image[..., start : start + _CHANNELS]) for start in starts]
    # cv2 drops a single channel
    resized = [cv2.resize(part, size[::-1], interpolation=how).reshape(*size, -1) for part in parts]
    return resized[0] if len(resized) == 1 else np.concatenate(resized, axis=2)


def resize_mask(mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resizes a mask (H, W) to `size` (height, width) by the nearest pixel."""
    return cv2.resize(np.ascontiguousarray(mask), size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
