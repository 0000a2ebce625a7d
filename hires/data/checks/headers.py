"""What the header of an image file says beside its size and type."""

from pathlib import Path
from typing import NamedTuple

from PIL import Image

from hires.data.formats.image_file import naming
from hires.data.images import opened
from hires.interfaces import DataError

_ORIENTATION = 274
_ENDINGS = {
    "BMP": (".bmp", ".dib"),
    "GIF": (".gif",),
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "JPEG2000": (".jp2", ".j2k", ".jpx"),
    "MPO": (".mpo", ".jpg", ".jpeg"),
    "PNG": (".png", ".apng"),
    "PPM": (".pbm", ".pgm", ".ppm", ".pnm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}


class Header(NamedTuple):
    """The container, its pictures, and which way up they were taken."""

    format: str = ""  # as Pillow calls it
    mode: str = ""  # as Pillow calls it
    pictures: int = 1
    orientation: int = 1  # EXIF, 1 to 8

    def fits(self, path: Path) -> bool:
        """Whether the name ends as files of this format do, capital or not; unknown formats do."""
        endings = _ENDINGS.get(self.format)
        return endings is None or path.suffix.lower() in endings


def read_header(path: Path) -> Header:
    """The header by Pillow; an empty one for what only others can read."""
    try:
        with naming(path), opened(path, path) as file:
            return Header(file.format or "", file.mode, getattr(file, "n_frames", 1), _orientation(file))
    except DataError:
        return Header()


def _orientation(file: Image.Image) -> int:
    if file.format == "PNG" and "exif" not in file.info:  # asking would decode it all
        return 1
    value = file.getexif().get(_ORIENTATION, 1)
    return value if value in range(1, 9) else 1
