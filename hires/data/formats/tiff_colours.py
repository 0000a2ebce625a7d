"""What the samples of a TIFF page mean: gray, bands, palettes, CMYK, Lab."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tifffile import TiffPage

from hires.data.formats.colour_spaces import cmyk_to_rgb, lab_to_rgb
from hires.data.formats.sample_types import as_native, native, stretched
from hires.interfaces import DataError

_WHITE_IS_ZERO, _PALETTE, _CMYK = 0, 3, 5
_CIE_LAB, _ICC_LAB, _ITU_LAB = 8, 9, 10
_UNFINISHED = {32803: "a colour filter mosaic", 32844: "LogL", 32845: "LogLuv"}
_UINT8, _UINT16 = np.dtype(np.uint8), np.dtype(np.uint16)


class Meaning(NamedTuple):
    """What turns stored samples (h, w, samples) into pixels, their type, and how many bands they then have."""

    apply: Callable[[np.ndarray], np.ndarray]
    dtype: np.dtype
    bands: int


class _Samples(NamedTuple):
    dtype: np.dtype  # unpacked
    bits: int
    bands: int  # without alpha


def alphas(page: TiffPage) -> int:
    """How many of the last samples are marked as alpha (associated or not)."""
    extra = [int(kind) for kind in page.extrasamples]
    count = 0
    while count < len(extra) and extra[-1 - count] in (1, 2):
        count += 1
    return min(count, page.samplesperpixel - 1)


def meaning(path: Path, page: TiffPage, values: bool) -> Meaning:
    """With `values` whole numbers and palette indices stay as stored. Raises DataError."""
    samples, photometric = _samples(path, page), int(page.photometric)
    if photometric in _UNFINISHED:
        raise DataError(f"{path}: a TIFF of {_UNFINISHED[photometric]} has no finished pixels; develop it to RGB")
    if photometric == _PALETTE and samples.bands == 1 and not values:
        return _palette(path, page, samples)
    if photometric == _CMYK:
        return _cmyk(path, page, samples)
    if photometric in (_CIE_LAB, _ICC_LAB, _ITU_LAB) and samples.bands == 3:
        return _lab(path, photometric, samples)
    return _plain(path, samples, photometric == _WHITE_IS_ZERO, values, stretches=photometric != _PALETTE)


def _samples(path: Path, page: TiffPage) -> _Samples:
    if page.dtype is None:
        raise DataError(
            f"{path}: samples of {page.bitspersample} bits in sample format {page.sampleformat} cannot be read; "
            "save it as uint8, uint16, int16 or float32"
        )
    bits = page.bitspersample if isinstance(page.bitspersample, int) else 8  # of 565, which is unpacked to 8
    return _Samples(page.dtype.newbyteorder("="), bits, page.samplesperpixel - alphas(page))


def _plain(path: Path, samples: _Samples, invert: bool, values: bool, stretches: bool) -> Meaning:
    kind, bits = samples.dtype.kind, samples.bits
    if invert and kind not in "bu":
        raise DataError(
            f"{path}: white is zero in {samples.dtype} samples, which has no agreed meaning; save it again"
        )
    if values and kind in "bui":
        kept = _UINT8 if kind == "b" else samples.dtype
        return Meaning(lambda array: _positive(array, bits, invert).astype(kept), kept, samples.bands)

    def apply(array: np.ndarray) -> np.ndarray:
        array = as_native(path, _positive(array, bits, invert))
        return stretched(array, bits) if stretches and 1 < bits < 8 else array

    return Meaning(apply, native(path, samples.dtype), samples.bands)


def _positive(array: np.ndarray, bits: int, invert: bool) -> np.ndarray:
    if not invert:
        return array
    return ~array if array.dtype == np.bool_ else array.dtype.type((1 << bits) - 1) - array


def _palette(path: Path, page: TiffPage, samples: _Samples) -> Meaning:
    colours = np.asarray(() if page.colormap is None else page.colormap).T
    if samples.dtype not in (np.bool_, _UINT8, _UINT16) or colours.ndim != 2 or colours.shape[1] != 3:
        raise DataError(f"{path}: the TIFF has no palette that makes sense; save it again")
    if colours.max(initial=0) > 255:  # 16 bits by the standard, but some write 8
        colours = colours // np.uint16(256)
    table = np.zeros((256 ** max(1, samples.dtype.itemsize), 3), np.uint8)  # beyond the palette is black
    table[: len(colours)] = colours[: len(table)]
    return Meaning(lambda array: table[array[..., 0].astype(np.intp)], _UINT8, 3)


def _cmyk(path: Path, page: TiffPage, samples: _Samples) -> Meaning:
    inks = page.tags.valueof(332, 1)  # InkSet; 1 is CMYK
    if samples.bands != 4 or samples.dtype not in (_UINT8, _UINT16) or inks != 1:
        raise DataError(f"{path}: a TIFF of {samples.bands} inks, {samples.dtype}, cannot become RGB; convert it")
    return Meaning(cmyk_to_rgb, samples.dtype, 3)


def _lab(path: Path, photometric: int, samples: _Samples) -> Meaning:
    if samples.dtype not in (_UINT8, _UINT16) or photometric == _ITU_LAB:
        raise DataError(f"{path}: a Lab TIFF of this kind ({samples.dtype}) cannot become RGB; convert it")
    signed = photometric == _CIE_LAB
    return Meaning(lambda array: lab_to_rgb(np.ascontiguousarray(array), signed=signed), samples.dtype, 3)
