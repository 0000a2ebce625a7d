"""Files that are either whole or absent: written beside, flushed to disk, then renamed."""

import json
import math
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from hires.interfaces import DataError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file that appears at `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _flush_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Removes what a killed process left half written in a folder that only we write to."""
    for path in folder.glob(".*.????????"):
        path.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Raises DataError where the disk is full, or the file cannot be written for another reason."""
    try:
        with whole_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror or error}); what was there before is unchanged"
        ) from error


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(jsonable(value), indent=2) + "\n")


def jsonable(value: Any) -> Any:
    """The value with NaN and infinities, which JSON does not know, as null."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
