"""The file of a checkpoint: what torch.save makes of a state, with a checksum as the comment of its zip archive.

torch.load and every program that reads zip archives take it as it is. The checksum is the SHA-256 of the archive
without its comment and the length of it, which are the end of the file.
"""

import hashlib
import logging
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from hires.engine.files import whole_file
from hires.interfaces import DataError

log = logging.getLogger(__name__)

FORMAT = 2
_WITHOUT_CHECKSUM = 1
"""The format of earlier versions of hires."""
_LABEL = b"hires sha256 "
_COMMENT = len(_LABEL) + 64  # bytes
_LENGTH = _COMMENT.to_bytes(2, "little")
_CHUNK = 2**20


class _Hashed:
    """A file that adds up what is written to it, and keeps what the system said: torch's writer hides that."""

    def __init__(self, file: BinaryIO):
        self.file, self.sum = file, hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self.sum.update(data)
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        pass


def write(path: Path, state: Mapping[str, Any], prepare: Callable[[Path], Any] = lambda beside: None) -> None:
    """Writes a state of tensors and plain values; `prepare` is told of the file before it is at `path`.

    Raises OSError for what cannot be written; what was there before is unchanged then.
    """
    with whole_file(path, prepare) as file:
        hashed = _Hashed(file)
        try:
            torch.save({**state, "format": FORMAT}, hashed)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise hashed.error or error from None
        file.seek(-len(_LENGTH), 2)
        file.write(_LENGTH + _LABEL + hashed.sum.hexdigest().encode())


def check(path: Path) -> None:
    """Raises DataError for a file that is not a whole checkpoint."""
    with _opened(path) as file:
        summed = _check(path, file)
    if not summed:  # of an earlier version, or one whose checksum is damaged
        _read(path)


def read(path: Path) -> dict[str, Any]:
    """A checkpoint as written by `write`, on the CPU; only tensors and plain values are ever unpickled.

    Raises DataError for what is not one, or is damaged; of earlier versions, which wrote no checksum, records are.
    """
    state = _read(path)
    if state["format"] == _WITHOUT_CHECKSUM:
        log.warning("%s: of an earlier version of hires, which wrote no checksum; it is taken as it is", path)
    return state


def _read(path: Path) -> dict[str, Any]:
    with _opened(path) as file:
        summed = _check(path, file)
        file.seek(0)
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a crafted file may make the reader raise whatever it likes
            raise _broken(path, type(error).__name__) from error
    if not isinstance(state, dict) or state.get("format") not in (FORMAT, _WITHOUT_CHECKSUM):
        raise DataError(
            f"{path}: not a checkpoint of this version of hires; weights of a backbone go to backbone.weights="
        )
    if not summed and state["format"] != _WITHOUT_CHECKSUM:
        raise _broken(path, "its checksum is damaged")
    return state


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise DataError(f"{path}: a folder; give the file of a checkpoint")
    if path.exists() and not path.is_file():  # reading a pipe would wait for ever
        raise DataError(f"{path}: a pipe or a device; give the file of a checkpoint")
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise DataError(f"{path}: no such checkpoint; check the path") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _check(path: Path, file: BinaryIO) -> bool:
    """Whether the file has a checksum. Raises DataError where it is not that of the content, or none is likely."""
    try:
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(4) != b"PK\x03\x04":
            raise _broken(path, "it is no zip archive")
        file.seek(max(0, size - _COMMENT - len(_LENGTH)))
        end = file.read()
        summed = end.startswith(_LENGTH + _LABEL)
        if summed and _sum(file, size - len(end)) != end[-64:]:
            raise _broken(path, "its content is not what its checksum says")
        _check_records(path, file, size, summed)
        return summed
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _sum(file: BinaryIO, size: int) -> bytes:
    """The checksum of the first bytes of a file, followed by the length of a comment that is not there yet."""
    found = hashlib.sha256()
    file.seek(0)
    while size and (data := file.read(min(size, _CHUNK))):
        found.update(data)
        size -= len(data)
    found.update(bytes(len(_LENGTH)))
    return found.hexdigest().encode()


def _check_records(path: Path, file: BinaryIO, size: int, summed: bool) -> None:
    """Raises DataError where the records would take more than the file has, or (without checksum) are damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            packed = any(record.compress_type != zipfile.ZIP_STORED for record in archive.infolist())
            if packed or sum(record.file_size for record in archive.infolist()) > size:
                raise _broken(path, "its records are packed, which those of hires are not")
            damaged = None if summed else archive.testzip()
    except DataError:
        raise
    except Exception as error:  # as in `read`
        raise _broken(path, type(error).__name__) from error
    if damaged:
        raise _broken(path, f"its record {damaged} is damaged")


def _broken(path: Path, why: str) -> DataError:
    return DataError(f"{path}: not a whole checkpoint of hires ({why})")
