"""Files before they are images: that they are there, what they promise, and errors that name them."""

import logging
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from hires.interfaces import DataError

log = logging.getLogger(__name__)

_HARMLESS = 2**26  # bytes that a header may promise whatever the size of its file
_SHOWN = 100  # characters of a decoder's own message

_max_pixels = 2**32

for _library in ("imagecodecs", "tifffile"):  # our own messages say it
    logging.getLogger(_library).setLevel(logging.CRITICAL)


def limit_pixels(most: int) -> None:
    """Sets how many pixels one decoding of this process may give; new processes start with 2**32."""
    global _max_pixels
    _max_pixels = most


def check_is_file(path: str | Path) -> None:
    """Raises DataError for what is missing, no regular file, or empty."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {_why_absent(path, error)}; check the path") from None
    if stat.S_ISDIR(found.st_mode):
        raise DataError(f"{path}: is a folder, not an image file; rename or remove it")
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path}: is a device or a pipe, not an image file; remove it")
    if found.st_size == 0:
        raise DataError(f"{path}: the file is empty (0 bytes); copy it again or remove it")


def _why_absent(path: str | Path, error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and os.path.islink(path):
        circle = error.errno is not None and os.strerror(error.errno).startswith("Too many levels")
        return "a link that leads in a circle" if circle else "a link to a file that is not there"
    if isinstance(error, FileNotFoundError) or not isinstance(error, OSError):
        return "no such file"
    return f"cannot be reached ({error.strerror})"


def read_bytes(path: str | Path) -> bytes:
    """The content of a file. Raises DataError."""
    check_is_file(path)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None


@contextmanager
def mapped(path: str | Path) -> Iterator[mmap.mmap]:
    """The content of a file as a read-only map, of which headers touch a few pages. Raises DataError."""
    check_is_file(path)
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content
    except PermissionError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Turns whatever a decoder raises into a DataError that names the file; DataErrors pass."""
    try:
        with np.errstate(all="ignore"):
            yield
    except DataError:
        raise
    except MemoryError:
        raise DataError(
            f"{path}: its pixels do not fit into memory; save it as tiled TIFF, of which windows are read"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({_short(error)}); copy it again or remove it") from None
    except Exception as error:  # decoders answer damage with anything from IndexError to their own types
        raise DataError(f"{path}: cannot be decoded ({_short(error)}); copy it again or remove it") from None


def _short(error: Exception) -> str:
    text = " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def check_sides(path: str | Path, height: int, width: int) -> None:
    """Raises DataError for an image without pixels."""
    if height < 1 or width < 1:
        raise DataError(f"{path}: has no pixels (height {height}, width {width}); remove it")


def check_pixels(path: str | Path, height: int, width: int) -> None:
    """Raises DataError where one decoding would give more pixels than the limit."""
    if height * width > _max_pixels:
        raise DataError(
            f"{path}: {height} x {width} pixels (height x width) are more than data.max_pixels={_max_pixels}; "
            "raise it if the file is what it says, or save it as tiled TIFF, of which windows are read"
        )


def check_promise(path: str | Path, promised: int, held: int, ratio: int) -> None:
    """Raises DataError where `held` bytes, unpacked by at most `ratio`, cannot give the bytes promised."""
    if promised > _HARMLESS and promised > held * ratio:
        raise DataError(
            f"{path}: the header promises {promised / 2**20:,.0f} MiB of pixels, which {held:,} bytes of file "
            "cannot hold; it is damaged: copy it again or remove it"
        )


@cache
def tell_once(message: str) -> None:
    """Logs a warning, once a process."""
    log.warning(message)


def tell_alpha() -> None:
    """Says, once a process, that alpha is no band."""
    tell_once("alpha channels are ignored: the colours are used as stored")
