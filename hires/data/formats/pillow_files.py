"""What Pillow reads here: GIF and BMP, and the stored values of palette and low-bit files."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import RLock

import numpy as np
from PIL import Image, UnidentifiedImageError

from hires.data.formats.image_file import check_promise, check_sides, read_bytes, tell_alpha
from hires.data.formats.picture import Picture, part
from hires.interfaces import DataError, Window

_LOW_BITS = {"L;2": 85, "L;4": 17}  # Pillow stretches 2- and 4-bit gray to 0..255 by this factor
_GRAY = {"1", "L"}
_UNPACKED = {"GIF": 2731, "BMP": 128}  # most pixels that one byte of the file can stand for
_lock = RLock()


@contextmanager
def opened(path: str | Path, source: bytes | str | Path) -> Iterator[Image.Image]:
    """The file's header by Pillow, without its limit on pixels: ours is `data.max_pixels`."""
    with _lock:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            file = Image.open(BytesIO(source) if isinstance(source, bytes) else source)
        except (UnidentifiedImageError, SyntaxError, ValueError, EOFError):
            raise DataError(f"{path}: not an image that can be read; convert or remove it") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error}); copy it again or remove it") from None
        finally:
            Image.MAX_IMAGE_PIXELS = limit
    with file:
        yield file


@contextmanager
def open_by_pillow(path: Path, values: bool) -> Iterator[Picture]:
    """A GIF (its first frame) or BMP: gray or RGB, or with `values` palette indices as stored."""
    with opened(path, path) as file:
        kind, mode, (width, height) = file.format or "", file.mode, file.size
    held = path.stat().st_size
    check_sides(path, height, width)
    bands = 1 if mode in _GRAY or (values and mode == "P") else 3

    def pixels(window: Window) -> np.ndarray:
        check_promise(path, height * width, held, _UNPACKED.get(kind, 128))
        if mode == "RGBA":
            tell_alpha()
        with opened(path, read_bytes(path)) as file:
            if bands == 1:
                decoded = np.asarray(file)
                return part(decoded * np.uint8(1 if values else 255) if decoded.dtype == bool else decoded, window)
            return part(np.asarray(file.convert("RGB")), window)

    yield Picture(kind, (height, width), np.dtype(np.uint8), bands, pixels)


def stored_values(path: Path, data: bytes) -> np.ndarray:
    """Palette indices, or gray values of 1, 2 or 4 bits, of a PNG: (H, W) uint8."""
    with opened(path, data) as file:
        tiles = getattr(file, "tile", None) or [("", (), 0, "")]
        factor = _LOW_BITS.get(str(tiles[0][3]), 1)
        decoded = np.asarray(file)
    return decoded.astype(np.uint8) if decoded.dtype == bool else decoded // np.uint8(factor)
