"""Files that are whole or absent (written beside, flushed to disk, then renamed), and files that grow by lines."""

import errno
import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from hires.interfaces import DataError


@contextmanager
def whole_file(path: Path, prepare: Callable[[Path], Any] = lambda beside: None) -> Iterator[BinaryIO]:
    """A binary file that appears at `path` when the block ends without an error.

    `prepare` is told where the file lies, whole, before it takes the place of the old one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _beside(path)
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        prepare(beside)
        os.replace(beside, path)
        _flush_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def also_as(path: Path, other: Path) -> None:
    """Gives a whole file a second name, in the place of what had it; a copy where the file system has no links."""
    beside = _beside(other)
    try:
        os.link(path, beside)
    except OSError:
        with open(path, "rb") as source, whole_file(other) as copy:
            shutil.copyfileobj(source, copy)
    else:
        _rename_link(beside, other)
        _flush_folder(other.parent)


def give_way(path: Path, before: Path) -> None:
    """Keeps a file as `before` when another is about to take its place.

    There is a whole file at `path` all the time. Where the file system has no links, it is at `before` for the
    moment between.
    """
    beside = _beside(before)
    try:
        os.link(path, beside)
    except OSError:
        os.replace(path, before)
    else:
        _rename_link(beside, before)


def _rename_link(beside: Path, path: Path) -> None:
    try:
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)  # of two names of the same file renaming one does nothing


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")


def remove_unfinished(folder: Path) -> None:
    """Removes what a killed process left half written in a folder that only we write to."""
    for path in folder.glob(".*.????????"):
        with suppress(OSError):  # such as a file system that is read-only by now
            path.unlink()


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # network file systems that do not know it
            raise
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


class Lines:
    """A file that grows by lines; those that cannot be written wait in memory until they can.

    `error` is what the system said to the last try, None when all is written; beyond `LIMIT` bytes that wait,
    lines are `lost`.
    """

    LIMIT = 64 * 2**20

    def __init__(self, path: Path):
        self.path, self.error, self.lost = path, None, 0
        self._waiting = bytearray()

    error: OSError | None

    @property
    def waiting(self) -> int:
        """How many lines are not in the file so far."""
        return self._waiting.count(b"\n")

    def add(self, line: str) -> None:
        if len(self._waiting) > self.LIMIT:
            self.lost += 1
        else:
            self._waiting += line.encode(errors="replace") + b"\n"
        self.write()

    def write(self) -> None:
        """Writes what waits, as far as that goes."""
        try:
            with open(self.path, "ab", buffering=0) as file:
                while self._waiting:
                    del self._waiting[: file.write(self._waiting)]
            self.error = None
        except OSError as error:
            self.error = error

    def flush(self) -> None:
        """Waits until the disk has what is written."""
        try:
            with open(self.path, "ab", buffering=0) as file:
                os.fsync(file.fileno())
        except OSError as error:
            self.error = error
