"""What is in the pixels of an image, gathered in one pass over its bands."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from hires.data.checks.bands import image_bands
from hires.data.checks.headers import Header, read_header
from hires.data.checks.peers import differs
from hires.data.images import ImageInfo, image_info
from hires.interfaces import DataError

THUMB = (16, 17)  # rows, columns of the thumbnail: 256 comparisons of neighbours


@dataclass(frozen=True)
class ImageFacts:
    """An image that was read to its last pixel."""

    info: ImageInfo
    header: Header
    digest: bytes  # of type, shape and pixels
    thumb: np.ndarray  # THUMB uint8: mean gray of the parts, 0 to 255 between the darkest and the brightest
    pixels: int
    sums: np.ndarray  # (C,) float64
    squares: np.ndarray  # (C,) float64
    low: float
    high: float
    finite: bool  # no NaN, no infinity
    otherwise: str  # how the usual decoder reads it differently, or ""
    alpha: tuple[float, float] | None  # its lowest and highest value, where it has any; in none of the above

    @property
    def is_flat(self) -> bool:
        """Whether all pixels are equal."""
        return self.low == self.high


def read_facts(path: Path) -> ImageFacts:
    """Reads a whole image. Raises DataError."""
    info = image_info(path)
    digest = hashlib.blake2b(repr((info.dtype.str, *info.size, info.bands)).encode(), digest_size=16)
    sums, squares = np.zeros(info.bands), np.zeros(info.bands)
    low, high, finite, rows, alpha = np.inf, -np.inf, True, 0, None
    thumb = _Thumb(info.size)
    for band in image_bands(path, info):
        if band.shape[1:] != (info.size[1], info.bands + info.alpha) or band.dtype != info.dtype:
            raise DataError(_disagreement(path, info, band))
        if info.alpha:
            alpha = _wider(alpha, band[:, :, info.bands :])
            band = np.ascontiguousarray(band[:, :, : info.bands])
        digest.update(np.ascontiguousarray(band).data)
        rows += len(band)
        finite = finite and (band.dtype.kind != "f" or bool(np.isfinite(band).all()))
        band = _countable(band)
        low, high = min(low, float(band.min())), max(high, float(band.max()))
        _add_moments(band, sums, squares)
        thumb.add(band)
    if rows != info.size[0]:
        raise DataError(f"{path}: header says {info.size[0]} rows, decoded {rows}; save it again")
    header = read_header(path)
    return ImageFacts(
        info=info,
        header=header,
        digest=digest.digest(),
        thumb=thumb.finished(),
        pixels=info.size[0] * info.size[1],
        sums=sums,
        squares=squares,
        low=low,
        high=high,
        finite=finite,
        otherwise=differs(path, info, header),
        alpha=alpha,
    )


def _wider(span: tuple[float, float] | None, values: np.ndarray) -> tuple[float, float]:
    """A range, widened by some values."""
    low, high = span or (np.inf, -np.inf)
    return min(low, float(values.min())), max(high, float(values.max()))


def _add_moments(band: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> None:
    """Adds the sums of a band's values and of their squares; OpenCV looks at four channels at most."""
    count = band.shape[0] * band.shape[1]
    for first in range(0, band.shape[2], 4):
        mean, deviation = cv2.meanStdDev(np.ascontiguousarray(band[:, :, first : first + 4]))
        sums[first : first + 4] += mean[:, 0] * count
        squares[first : first + 4] += (deviation[:, 0] ** 2 + mean[:, 0] ** 2) * count


def _disagreement(path: Path, info: ImageInfo, band: np.ndarray) -> str:
    said = f"{'x'.join(map(str, info.size))}, {info.bands + info.alpha} band(s), {info.dtype}"
    got = f"{'x'.join(map(str, band.shape[:2]))}, {band.shape[2]} band(s), {band.dtype}"
    return f"{path}: header says {said}, decoded {got}; save it again"


def _countable(values: np.ndarray) -> np.ndarray:
    """Values in a type and layout that OpenCV takes, without what is not finite."""
    if values.dtype.kind == "f":
        values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    kinds = (np.uint8, np.uint16, np.int16, np.float32)
    return np.ascontiguousarray(values if values.dtype in kinds else values.astype(np.float32))


class _Thumb:
    """Means of the parts of a grid over an image that comes in bands of rows."""

    def __init__(self, size: tuple[int, int]):
        self._edges = np.linspace(0, size[0], THUMB[0] + 1)
        self._sums, self._top = np.zeros(THUMB), 0

    def add(self, band: np.ndarray) -> None:
        some = np.ascontiguousarray(band[:, :, : 3 if band.shape[2] >= 3 else 1])
        if some.dtype.kind == "f":  # sums of large values are beyond float32
            some = some.astype(np.float64)
        columns = cv2.resize(some, (THUMB[1], len(band)), interpolation=cv2.INTER_AREA)
        columns = columns.reshape(*columns.shape[:2], -1).mean(axis=2, dtype=np.float64)
        rows = self._top + np.arange(len(band))
        low, high = np.maximum(self._edges[:-1, None], rows), np.minimum(self._edges[1:, None], rows + 1)
        self._sums += np.maximum(0, high - low) @ columns
        self._top += len(band)

    def finished(self) -> np.ndarray:
        means = self._sums / np.diff(self._edges)[:, None]
        low, high = means.min(), means.max()
        return ((means - low) * (255 / (high - low or 1))).round().astype(np.uint8)
