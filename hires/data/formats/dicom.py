"""DICOM images: the modality's values, never what the file says about a patient."""

import logging
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hires.data.formats.dicom_pixels import Header, first_frame
from hires.data.formats.image_file import check_is_file, check_promise, check_sides, mapped, tell_once
from hires.data.formats.picture import Picture, part
from hires.interfaces import DataError, Window

_SLIDE = "1.2.840.10008.5.1.4.1.1.77.1.6"
_DEFLATED, _LARGEST_META = b"1.2.840.10008.1.2.1.99", 2**20
_CHUNK, _MOST_UNPACKED = 2**20, 2**30  # bytes
_CODED_RATIO = 2**16  # of the compressed syntaxes
_DAMAGED = "the DICOM file is damaged or of a kind that cannot be read; copy it again or remove it"


def is_slide(path: Path) -> bool:
    """Whether the file is a microscope's slide, whose frames are its tiles."""
    with _quiet(path):
        _check_deflated(path)
        found = _read(path, stop_before_pixels=True, specific_tags=["SOPClassUID"])
        return str(found.get("SOPClassUID", "")) == _SLIDE


@contextmanager
def open_dicom(path: Path, values: bool) -> Iterator[Picture]:
    """Gray, more is brighter (MONOCHROME1 is inverted), rescaled to the modality's units; or RGB.

    Of several frames the first is read.
    """
    check_is_file(path)
    with _quiet(path):
        _check_deflated(path)
        image = _read(path, stop_before_pixels=True)
        header = Header(path, image)
    check_sides(path, *header.size)

    def pixels(window: Window) -> np.ndarray:
        if header.frames > 1:
            tell_once("of DICOM files with several frames only the first is read")
        check_promise(path, header.bytes, path.stat().st_size, _CODED_RATIO if header.coded else 1)
        with _quiet(path):
            stored = first_frame(path, _read(path), header)
        return header.meaning(part(stored, window), values)

    bands = 3 if header.colour else 1
    yield Picture("DICOM", header.size, header.stored if values else header.dtype, bands, pixels)


def _check_deflated(path: Path) -> None:
    """Raises DataError for what would become very large: of deflated files the library unpacks all at once."""
    with open(path, "rb") as file:
        head = file.read(144)
        meta = file.read(min(int.from_bytes(head[140:144], "little"), _LARGEST_META))
        if _DEFLATED not in meta:
            return
        unpacked, decompressor = 0, zlib.decompressobj(-zlib.MAX_WBITS)
        data = file.read(_CHUNK)
        while data and not decompressor.eof:
            unpacked += len(decompressor.decompress(data, _CHUNK))
            data = decompressor.unconsumed_tail or file.read(_CHUNK)
            if unpacked > _MOST_UNPACKED:
                raise DataError(
                    f"{path}: the deflated DICOM file unpacks to more than 1 GiB; save it uncompressed"
                )


@contextmanager
def _quiet(path: Path) -> Iterator[None]:
    """Errors, warnings and logs of the library quote values of the file: none of them gets out."""
    logger = logging.getLogger("pydicom")
    disabled, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DataError:
        raise
    except MemoryError:
        raise DataError(f"{path}: its pixels do not fit into memory; convert it to tiled TIFF") from None
    except Exception:
        raise DataError(f"{path}: {_DAMAGED}") from None
    finally:
        logger.disabled = disabled


def _read(path: Path, **options: Any) -> Any:
    library = _library(path)
    with mapped(path) as content:  # of which no more is read than there is, whatever lengths the file tells
        return library.dcmread(content, **options)


def _library(path: Path) -> Any:
    try:
        import pydicom
    except ImportError:
        raise DataError(f"{path}: DICOM files need pydicom: pip install 'hires[dicom]'") from None
    return pydicom
