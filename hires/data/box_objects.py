"""Objects of many images as flat arrays: what the readers of boxes give, and what a source keeps."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.images import image_size


class Images(NamedTuple):
    """Image files: paths relative to the root, their sizes and ids."""

    paths: list[str]
    sizes: np.ndarray  # (N, 2) int64 height and width after orientation, pixels
    ids: np.ndarray  # (N,) int64, as in the annotation file


class Objects(NamedTuple):
    """Objects, those of an image side by side, in order of the images."""

    images: np.ndarray  # (M,) int64 index of the image
    boxes: np.ndarray  # (M, 4) float64 x1 y1 x2 y2, pixels
    classes: np.ndarray  # (M,) int64: a file's class ids, then class indices
    ignored: np.ndarray  # (M,) bool
    areas: np.ndarray  # (M,) float64 pixels, NaN where none is annotated
    ids: np.ndarray  # (M,) int64

    def take(self, which: np.ndarray) -> "Objects":
        """Those of a boolean mask or an index array."""
        return Objects(*(array[which] for array in self))


def made(images: np.ndarray, boxes: np.ndarray, classes: np.ndarray, ignored: np.ndarray | None = None) -> Objects:
    """Objects of files that give neither areas nor ids: they count from 1."""
    count = len(images)
    ignored = np.zeros(count, bool) if ignored is None else ignored
    return Objects(
        images.astype(np.int64),
        boxes.reshape(count, 4).astype(np.float64),
        classes.astype(np.int64),
        ignored.astype(bool),
        np.full(count, np.nan),
        np.arange(1, count + 1),
    )


def found(root: Path, paths: Sequence[str], ids: Sequence[int] | None = None) -> Images:
    """Image files with their sizes, from their headers. Without ids they count from 1. Raises DataError."""
    sizes = np.array([image_size(root / path) for path in paths], np.int64).reshape(-1, 2)
    numbers = np.arange(1, len(paths) + 1) if ids is None else np.array(ids, np.int64)
    return Images(list(paths), sizes, numbers)
