"""The pixels of DICOM images: what their header says of them, and the first frame."""

from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np

from hires.data.formats.jpeg import check_jpeg, jpeg_header
from hires.data.formats.jpeg2000 import jpeg2000_header
from hires.interfaces import DataError

_GRAY, _COLOUR = ("MONOCHROME1", "MONOCHROME2"), ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
_RLE = "1.2.840.10008.1.2.5"
_JPEG = tuple(f"1.2.840.10008.1.2.4.{kind}" for kind in (50, 51, 57, 70))
_JPEG_LS = tuple(f"1.2.840.10008.1.2.4.{kind}" for kind in (80, 81))
_JPEG_2000 = tuple(f"1.2.840.10008.1.2.4.{kind}" for kind in (90, 91, 201, 202, 203))


class Header:
    """What is needed to read the first frame. Raises DataError."""

    def __init__(self, path: Path, image: Any):
        self.kind = str(image.get("PhotometricInterpretation", ""))
        self.size = int(image.get("Rows", 0)), int(image.get("Columns", 0))
        self.samples, self.frames = int(image.get("SamplesPerPixel", 1)), int(image.get("NumberOfFrames") or 1)
        self.allocated, self.bits = int(image.get("BitsAllocated", 0)), int(image.get("BitsStored", 0))
        self.signed = int(image.get("PixelRepresentation", 0)) == 1
        self.syntax = image.file_meta.TransferSyntaxUID
        self.coded = bool(self.syntax.is_encapsulated)
        self.colour = self.samples == 3
        known = _COLOUR if self.colour else _GRAY
        if self.kind not in known or self.allocated not in (8, 16) or not 0 < self.bits <= self.allocated:
            raise DataError(
                f"{path}: DICOM pixels of {self.samples} sample(s) of {self.allocated} bits"
                f"{' with a palette' if self.kind.startswith('PALETTE') else ''} are not read, only gray, RGB and "
                "YBR of 8 and 16 bits; convert it to TIFF"
            )
        self.bytes = self.size[0] * self.size[1] * self.samples * self.allocated // 8
        self.stored = np.dtype(f"{'i' if self.signed else 'u'}{self.allocated // 8}")
        self.slope, self.intercept = _rescale(path, image)
        self.lowest = -(1 << self.bits - 1) if self.signed else 0
        self.highest = self.lowest + (1 << self.bits) - 1
        self.dtype = self._type()

    def _type(self) -> np.dtype:
        """Told by the header, so that it is the same whatever the pixels are."""
        if (self.slope, self.intercept) == (1, 0) or self.colour:
            return np.dtype(np.int16) if self.stored == np.int8 else self.stored
        ends = sorted(end * self.slope + self.intercept for end in (self.lowest, self.highest))
        whole = self.slope.is_integer() and self.intercept.is_integer()
        return np.dtype(np.int16 if whole and ends[0] >= -(2**15) and ends[1] < 2**15 else np.float32)

    def meaning(self, stored: np.ndarray, values: bool) -> np.ndarray:
        """Stored gray values in the modality's units, more is brighter; colours and raw `values` as they are."""
        if self.colour or values:
            return stored
        wide = stored.astype(np.int32)
        if self.kind == "MONOCHROME1":
            wide = self.lowest + self.highest - wide
        if (self.slope, self.intercept) == (1, 0):
            return wide.astype(self.dtype)
        return (wide * self.slope + self.intercept).astype(self.dtype)


def _rescale(path: Path, image: Any) -> tuple[float, float]:
    """Slope and intercept of the first frame, of the image itself or of its functional groups."""
    places = [image]
    for groups in ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"):
        for group in list(image.get(groups) or [])[:1]:
            places += list(group.get("PixelValueTransformationSequence") or [])[:1]
    if any("ModalityLUTSequence" in place for place in places):
        raise DataError(
            f"{path}: the units of the DICOM image are told by a table, which is not read; convert it to TIFF"
        )
    told: Any = next((place for place in places if "RescaleSlope" in place), {})
    return float(told.get("RescaleSlope", 1)), float(told.get("RescaleIntercept", 0))


def first_frame(path: Path, image: Any, header: Header) -> np.ndarray:
    """(H, W) or (H, W, samples) as stored, colours as RGB. Raises DataError, and whatever decoders raise."""
    if not header.coded:
        return _native(image, header)
    frame = _first_fragment(image, header)
    if header.syntax == _RLE:
        planes = imagecodecs.dicomrle_decode(frame, header.stored)
        shaped = np.frombuffer(planes, header.stored).reshape(header.samples, *header.size)
        return _rgb(shaped.transpose(1, 2, 0), header)
    _check_inner(path, header, frame)
    if header.syntax in _JPEG:
        # some write "RGB" beside a JFIF file, which is YCbCr; without a marker the decoder would guess YCbCr
        space = "RGB" if header.kind == "RGB" and b"JFIF" not in frame[:24] else None
        decoded = imagecodecs.jpeg8_decode(frame, colorspace=space, outcolorspace="RGB" if header.colour else None)
    elif header.syntax in _JPEG_LS:
        decoded = _rgb(imagecodecs.jpegls_decode(frame), header)
    elif header.syntax in _JPEG_2000:
        decoded = imagecodecs.jpeg2k_decode(frame)
    else:
        raise ValueError
    if decoded.shape[:2] != header.size or decoded.dtype.itemsize != header.stored.itemsize:
        raise ValueError
    return _extended(decoded.view(header.stored), header)


def _check_inner(path: Path, header: Header, frame: bytes) -> None:
    """Before decoders make room for what the image within says of itself. Raises DataError or ValueError."""
    if header.syntax in _JPEG_2000:
        coded = jpeg2000_header(path, frame)
        told = coded.height, coded.width, coded.samples
    else:
        inner = jpeg_header(path, frame)
        told = inner.height, inner.width, inner.components
        if header.syntax in _JPEG:
            check_jpeg(path, inner, frame)
    if told != (*header.size, header.samples):
        raise ValueError


def _native(image: Any, header: Header) -> np.ndarray:
    data = memoryview(image.PixelData)[: header.bytes]
    stored = np.frombuffer(data, header.stored.newbyteorder("<" if header.syntax.is_little_endian else ">"))
    if int(image.get("PlanarConfiguration", 0)) == 1 and header.colour:
        shaped = stored.reshape(3, *header.size).transpose(1, 2, 0)
    else:
        shaped = stored.reshape(*header.size, header.samples)
    return _extended(_rgb(shaped.astype(header.stored), header), header)


def _extended(stored: np.ndarray, header: Header) -> np.ndarray:
    """Bits above those stored may hold anything (overlays): they repeat the sign, or are 0."""
    spare = header.allocated - header.bits
    return (stored << spare) >> spare if spare else stored


def _rgb(stored: np.ndarray, header: Header) -> np.ndarray:
    """Full-range YCbCr of BT.601, as in JFIF, to RGB."""
    if not header.kind.startswith("YBR_FULL"):
        return stored
    if header.kind == "YBR_FULL_422" or stored.dtype != np.uint8:
        raise ValueError
    y, cb, cr = (stored[..., i].astype(np.float32) - (128 if i else 0) for i in range(3))
    rgb = np.stack([y + 1.402 * cr, y - 0.344136 * cb - 0.714136 * cr, y + 1.772 * cb], axis=-1)
    return np.rint(rgb).clip(0, 255).astype(np.uint8)


def _first_fragment(image: Any, header: Header) -> bytes:
    from pydicom.encaps import get_frame

    return get_frame(image.PixelData, 0, number_of_frames=header.frames)
