"""What the header of an image file says beside its size and type."""

from pathlib import Path
from typing import NamedTuple

from hires.data.formats.image_file import naming
from hires.data.formats.pillow_files import opened
from hires.interfaces import DataError

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
    """The container and its pictures."""

    format: str = ""  # as Pillow calls it
    mode: str = ""  # as Pillow calls it
    pictures: int = 1

    def fits(self, path: Path) -> bool:
        """Whether the name ends as files of this format do, capital or not; unknown formats do."""
        endings = _ENDINGS.get(self.format)
        return endings is None or path.suffix.lower() in endings


def read_header(path: Path) -> Header:
    """The header by Pillow; an empty one for what only others can read."""
    try:
        with naming(path), opened(path, path) as file:
            return Header(file.format or "", file.mode, getattr(file, "n_frames", 1))
    except DataError:
        return Header()
