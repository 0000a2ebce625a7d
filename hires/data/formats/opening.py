"""Which reader a file needs, by its first bytes; its name does not count."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from hires.data.formats.dicom import is_slide, open_dicom
from hires.data.formats.image_file import check_is_file, naming
from hires.data.formats.jpeg import open_jpeg
from hires.data.formats.jpeg2000 import open_jpeg2000
from hires.data.formats.npy import open_npy
from hires.data.formats.picture import Picture
from hires.data.formats.pillow_files import open_by_pillow
from hires.data.formats.png import open_png
from hires.data.formats.pnm import open_pnm
from hires.data.formats.slides import open_slide
from hires.data.formats.tiff import open_tiff
from hires.data.formats.webp import open_webp
from hires.interfaces import DataError

Open = Callable[[Path, bool], AbstractContextManager[Picture]]

_STARTS: dict[bytes, Open] = {
    b"\x89PNG\r\n\x1a\n": open_png,
    b"\xff\xd8\xff": open_jpeg,
    b"II*\0": open_tiff,
    b"MM\0*": open_tiff,
    b"II+\0": open_tiff,
    b"MM\0+": open_tiff,
    b"GIF87a": open_by_pillow,
    b"GIF89a": open_by_pillow,
    b"BM": open_by_pillow,
    **dict.fromkeys((b"P1", b"P2", b"P3", b"P4", b"P5", b"P6", b"P7", b"PF", b"Pf"), open_pnm),
    b"\0\0\0\x0cjP  ": open_jpeg2000,
    b"\xff\x4f\xff\x51": open_jpeg2000,
    b"\x93NUMPY": open_npy,
    b"ZISRAWFILE": open_slide,  # Zeiss
    b"SQLite format 3\0": open_slide,  # Sakura
}
_SLIDE_NAMES = (".mrxs", ".vms", ".vmu")  # their files are indices or thumbnails that say nothing by content
# known, not read: told by name
_OTHERS = {
    b"8BPS": "a Photoshop file",
    b"\x76\x2f\x31\x01": "an OpenEXR file",
    b"\x89HDF": "an HDF5 file",
    b"\xff\x0a": "a JPEG XL file",
    b"\0\0\0\x0cJXL ": "a JPEG XL file",
    b"%PDF": "a PDF file",
    b"<svg": "an SVG drawing",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive",
    b"#?RADIANCE": "a Radiance file",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself",
}


@contextmanager
def open_picture(path: str | Path, values: bool = False) -> Iterator[Picture]:
    """The file's header, and its pixels on demand.

    With `values` pixels are raw, as masks need them: palette indices, gray of few bits not stretched, 32-bit
    whole numbers as they are. Raises DataError.
    """
    path = Path(path)
    with ExitStack() as opened:
        with naming(path):
            picture = opened.enter_context(_opener(path)(path, values))
        yield picture


def _opener(path: Path) -> Open:
    check_is_file(path)
    with open(path, "rb") as file:
        head = file.read(132)
    if path.suffix.lower() in _SLIDE_NAMES:
        return open_slide
    for start, opener in _STARTS.items():
        if head.startswith(start):
            return opener
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return open_webp
    if head[128:] == b"DICM":
        return open_slide if is_slide(path) else open_dicom
    other = next((name for start, name in _OTHERS.items() if head.startswith(start)), None)
    if head[4:8] == b"ftyp":
        other = "an AVIF or HEIC file, or a video"
    what = f"{other}, which is not read here" if other else "not an image that can be read"
    raise DataError(f"{path}: {what}; convert it to PNG or TIFF, or remove it")
