"""Tells one data set from another without decoding it, the same on every machine."""

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_LOOKED_AT = 20_000  # files at most whose sizes are asked for, as many as headers are looked at before a training


@dataclass(frozen=True)
class Fingerprint:
    """Of the images of one split in their order, and of their labels."""

    images: int
    files: int  # images and label files whose sizes are part of it
    bytes: int  # of these files together
    sha256: str


def fingerprint(source: Any) -> Fingerprint:
    """Of an ImageSource: the names of its images, the sizes of its files, and the labels as far as they were read.

    Of very many files the sizes of some are asked for, evenly. No content, and no time of a file, is part of it: a
    copy has the fingerprint of the original, and so has an image that was repainted to just as many bytes.
    """
    digest = hashlib.sha256()
    images = [source.name(index) for index in range(len(source))]
    label_files, arrays = source.labels_read() if hasattr(source, "labels_read") else ((), ())
    files = total = 0
    for names in (images, [str(name) for name in label_files]):
        digest.update(_joined(names))
        sizes = _sizes(source.root, names) if hasattr(source, "root") else np.zeros(0, np.int64)
        digest.update(sizes.astype("<i8").tobytes())
        files, total = files + len(sizes), total + int(sizes.clip(0).sum())
    for array in arrays:
        digest.update(_joined([str(array.dtype), str(array.shape)]) + np.ascontiguousarray(array).tobytes())
    return Fingerprint(len(images), files, total, digest.hexdigest())


def _joined(names: Sequence[str]) -> bytes:
    return "\0".join([str(len(names)), *names, ""]).encode("utf-8", "surrogateescape")


def _sizes(root: Path, names: Sequence[str]) -> np.ndarray:
    """Bytes of files, (files,) int64; -1 of one that is not there."""
    step = math.ceil(len(names) / _LOOKED_AT) or 1
    return np.array([_size(root / name) for name in names[::step]], np.int64)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
