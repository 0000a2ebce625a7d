"""Netpbm files: PBM, PGM, PPM (P1 to P6), PAM (P7) and PFM. Binary ones are read by windows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hires.data.formats.image_file import check_sides, mapped, read_bytes, tell_alpha
from hires.data.formats.picture import Picture, part
from hires.data.formats.sample_types import scaled
from hires.interfaces import DataError, Window

_HEAD = 4096  # bytes within which a header ends
_TOKEN = re.compile(rb"(?:\s|#[^\n\r]*[\n\r])*([^\s#]+)")
_BITMAPS, _TEXT = (b"P1", b"P4"), (b"P1", b"P2", b"P3")
_DEPTHS = {b"P1": 1, b"P2": 1, b"P3": 3, b"P4": 1, b"P5": 1, b"P6": 3, b"Pf": 1, b"PF": 3}


class _Header(NamedTuple):
    magic: bytes
    height: int
    width: int
    samples: int  # a pixel, with alpha
    white: int  # highest value; of bitmaps 1, of PFM 0
    dtype: np.dtype  # as stored
    start: int  # of the pixels in the file
    alpha: bool = False


@contextmanager
def open_pnm(path: Path, values: bool) -> Iterator[Picture]:
    """Gray or RGB: 8 bits over 0..255, more than 8 bits as stored. With `values` all as stored."""
    with mapped(path) as content:
        header = _header(path, content[:_HEAD])
        length = len(content)
    check_sides(path, header.height, header.width)
    bands = header.samples - header.alpha
    text = header.magic in _TEXT

    def opaque(window: Window) -> np.ndarray:
        return _meaning(
            header, _text(path, header, window) if text else _binary(path, header, window, length), values
        )

    def pixels(window: Window) -> np.ndarray:
        if header.alpha:
            tell_alpha()
        return opaque(window)[..., :bands]

    dtype = header.dtype.newbyteorder("=")
    size = (header.height, header.width)
    name, alphas = "PFM" if dtype.kind == "f" else "PNM", int(header.alpha)
    yield Picture(name, size, dtype, bands, pixels, windowed=not text, alphas=alphas, opaque=opaque)


def _meaning(header: _Header, stored: np.ndarray, values: bool) -> np.ndarray:
    if header.magic in _BITMAPS:
        stored = 1 - stored  # 1 is black
    if header.dtype.kind == "u" and header.white < 255 and not values:
        return scaled(stored, header.white)
    return stored.astype(header.dtype.newbyteorder("="))


def _header(path: Path, head: bytes) -> _Header:
    try:
        header = _pam(head) if head[:2] == b"P7" else _classic(head)
    except (ValueError, KeyError, AttributeError):
        raise DataError(f"{path}: the header of the PNM file makes no sense; copy it again or remove it") from None
    if header.dtype.kind == "u" and not 1 <= header.white <= 65535:
        raise DataError(
            f"{path}: the highest value must be 1 to 65535, the header says {header.white}; convert it"
        )
    return header


def _classic(head: bytes) -> _Header:
    magic, at, told = head[:2], 2, []
    for _ in range(2 if magic in _BITMAPS else 3):
        found = _TOKEN.match(head, at)
        if found is None:
            raise ValueError
        told.append(found[1])
        at = found.end()
    width, height = _side(told[0]), _side(told[1])
    if magic in (b"Pf", b"PF"):
        dtype = np.dtype("<f4" if float(told[2]) < 0 else ">f4")
        return _Header(magic, height, width, _DEPTHS[magic], 0, dtype, at + 1)
    white = int(told[2]) if len(told) > 2 else 1
    return _Header(magic, height, width, _DEPTHS[magic], white, _unsigned(white), at + 1)


def _pam(head: bytes) -> _Header:
    body, _, _ = head.partition(b"ENDHDR\n")
    lines = [line.split(None, 1) for line in body.split(b"\n")[1:] if line and not line.startswith(b"#")]
    told = {line[0]: line[1].strip() for line in lines if len(line) == 2}
    white, kind = int(told[b"MAXVAL"]), told.get(b"TUPLTYPE", b"")
    sides = _side(told[b"HEIGHT"]), _side(told[b"WIDTH"])
    samples = _side(told[b"DEPTH"])
    if not samples:
        raise ValueError
    alpha = kind.endswith(b"_ALPHA") and samples > 1
    return _Header(b"P7", *sides, samples, white, _unsigned(white), len(body) + 7, alpha)


def _side(token: bytes) -> int:
    if not token.isdigit() or len(token) > 9:
        raise ValueError
    return int(token)


def _unsigned(white: int) -> np.dtype:
    return np.dtype("u1" if white < 256 else ">u2")


def _binary(path: Path, header: _Header, window: Window, length: int) -> np.ndarray:
    packed = header.magic == b"P4"
    row = -(-header.width // 8) if packed else header.width * header.samples * header.dtype.itemsize
    if header.start + header.height * row > length:
        raise DataError(f"{path}: is cut short ({length:,} bytes); copy it again or remove it")
    shape = (header.height, row) if packed else (header.height, header.width, header.samples)
    stored: np.ndarray = np.memmap(path, header.dtype, "r", header.start, shape)
    if header.dtype.kind == "f":
        stored = stored[::-1]  # the bottom row comes first
    if not packed:
        return part(stored, window)
    rows = np.unpackbits(stored[window.y : window.y + window.height], axis=1)
    return rows[:, window.x : window.x + window.width, None]


def _text(path: Path, header: _Header, window: Window) -> np.ndarray:
    body = re.sub(rb"#[^\n\r]*", b"", read_bytes(path)[header.start - 1 :])
    if header.magic == b"P1":
        body = b" ".join(re.findall(rb"[01]", body))  # digits of bitmaps may touch
    wanted = header.height * header.width * header.samples
    if wanted * 2 > len(body) + 1:
        raise DataError(f"{path}: is cut short; copy it again or remove it")
    numbers = np.array(body.split()[:wanted], dtype=np.int64)
    if len(numbers) < wanted or numbers.min() < 0 or numbers.max() > header.white:
        raise DataError(f"{path}: does not hold {wanted} values of 0 to {header.white}; save it again")
    shape = (header.height, header.width, header.samples)
    return part(numbers.astype(header.dtype).reshape(shape), window)
