"""Keeps decoded arrays as memory-mapped files, so that a window is read without decoding its whole file."""

import hashlib
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

log = logging.getLogger(__name__)

Decode = Callable[[Path], np.ndarray]
_FORMAT = 2  # raise when decoding changes, so that older entries are no longer found
_STALE_SECONDS = 3600
_told: set[tuple[Path, int, str]] = set()


class Cache(Protocol):
    """Where decoded files are kept, or not."""

    def load(self, path: Path, decode: Decode, variant: str = "") -> np.ndarray:
        """What `decode(path)` returns; `variant` names what that depends on besides the file."""

    def takes(self, path: Path, count: int, variant: str = "") -> bool:
        """Whether the decoded file of so many bytes is there, or would be kept."""


class NoCache:
    """Decodes every time."""

    def load(self, path: Path, decode: Decode, variant: str = "") -> np.ndarray:
        return decode(path)

    def takes(self, path: Path, count: int, variant: str = "") -> bool:
        return False


class DecodedCache:
    """A folder of `.npy` files of at most `gib` GiB, shared by any number of processes.

    Several processes that write at the same moment may exceed the budget by one array each.
    """

    def __init__(self, folder: str | Path, gib: float):
        self.folder, self.budget = Path(folder).expanduser(), int(gib * 2**30)
        self._writes, self._refused = True, math.inf  # the fewest bytes for which there was no room

    def load(self, path: Path, decode: Decode, variant: str = "") -> np.ndarray:
        """The decoded file: a read-only memory map, or the array itself where it could not be kept.

        Errors of `decode` pass through.
        """
        try:
            entry = self._entry(path, variant)
        except OSError:
            return decode(path)  # it knows best how to say what is wrong with the file
        kept = _open(entry)
        if kept is not None:
            return kept
        array = decode(path)
        if self._writes and self._write(entry, array):
            kept = _open(entry)
            self._check_owner(entry)
        return array if kept is None else kept

    def takes(self, path: Path, count: int, variant: str = "") -> bool:
        try:
            entry = self._entry(path, variant)
            if entry.exists():
                return _is_own(entry)
            if not self._writes:
                return False
            self.folder.mkdir(parents=True, exist_ok=True)
            return self._has_room(count)
        except OSError:
            return False

    def _entry(self, path: Path, variant: str) -> Path:
        stat = os.stat(path)
        key = repr((os.path.abspath(path), stat.st_size, stat.st_mtime_ns, _FORMAT, variant))
        return self.folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:40]}.npy"

    def _write(self, entry: Path, array: np.ndarray) -> bool:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._has_room(array.nbytes):
                return False
            _write_whole(entry, array)
        except OSError as error:
            self._writes = False
            self._tell(logging.WARNING, f"cannot be written ({error.strerror or error}): going on without it")
            return False
        return True

    def _check_owner(self, entry: Path) -> None:
        """Writes no more where the file system gives what this process writes another owner."""
        try:
            owner = os.stat(entry).st_uid
        except OSError:
            return  # another process has removed it
        if owner == os.geteuid():
            return
        self._writes = False
        self._tell(
            logging.WARNING,
            f"gives its files another owner (user {owner}) than the one who writes them (user "
            f"{os.geteuid()}), as network file systems may, and entries of others are not read: every image is "
            "decoded again; set HIRES_CACHE (data.cache_dir) to a folder on a disk of this machine",
        )

    def _has_room(self, count: int) -> bool:
        if count >= self._refused:  # what is smaller may still find room; looking takes a while
            return False
        if _folder_bytes(self.folder) + count <= self.budget:
            return True
        self._refuse(count)
        return False

    def _refuse(self, count: int) -> None:
        if self._refused == math.inf:
            self._tell(logging.INFO, "is full: decoding the rest each time; raise data.cache_gib or empty it")
        self._refused = count

    def _tell(self, level: int, why: str) -> None:
        """Says it once a process, however many splits there are."""
        if (self.folder, self.budget, why) not in _told:
            _told.add((self.folder, self.budget, why))
            log.log(level, "cache %s (%.3g GiB) %s", self.folder, self.budget / 2**30, why)


def open_cache(folder: str | Path, gib: float) -> Cache:
    """A cache of at most `gib` GiB, or one that keeps nothing for 0."""
    return DecodedCache(Path(folder).expanduser() / "decoded", gib) if gib > 0 else NoCache()


def _open(entry: Path) -> np.ndarray | None:
    try:
        if not _is_own(entry):
            return None
        return np.load(entry, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None  # absent, or damaged from outside: it is decoded and written again


def _is_own(entry: Path) -> bool:
    """Whether it is not of somebody else who writes to the folder, too. Raises OSError."""
    return os.stat(entry).st_uid == os.geteuid()


def _write_whole(entry: Path, array: np.ndarray) -> None:
    handle, beside = tempfile.mkstemp(dir=entry.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, entry)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _folder_bytes(folder: Path) -> int:
    """Bytes of all files; removes what a process that was killed left half written."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                stat = entry.stat()
                if entry.name.endswith(".tmp") and time.time() - stat.st_mtime > _STALE_SECONDS:
                    os.unlink(entry.path)
                else:
                    total += stat.st_size
            except FileNotFoundError:
                continue  # another process renamed or removed it meanwhile
    return total
