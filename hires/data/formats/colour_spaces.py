"""Colours of print (CMYK) and of CIE L*a*b* as RGB."""

from collections.abc import Iterator

import numpy as np

_AT_ONCE = 2**18  # pixels: the sums take several bytes a sample
_WHITE_D50 = np.array([0.9642, 1.0, 0.8249], np.float32)
# XYZ relative to D50 as linear sRGB: the Bradford-adapted matrix of the sRGB ICC profile, inverted
_TO_LINEAR = np.array(
    [[3.1338561, -1.6168667, -0.4906146], [-0.9787684, 1.9161415, 0.0334540], [0.0719453, -0.2289914, 1.4052427]],
    np.float32,
)


def cmyk_to_rgb(ink: np.ndarray) -> np.ndarray:
    """(H, W, 4) ink, 0 is none, uint8 or uint16, as RGB: light passes the colour and the black, (1 - c)(1 - k)."""
    full = np.iinfo(ink.dtype).max
    rgb = np.empty((*ink.shape[:2], 3), ink.dtype)
    for rows in _rows(ink):
        light = full - ink[rows].astype(np.int64)
        black = light[..., 3:]
        absorbed = ((full - light[..., :3]) * black + full // 2) // full
        rgb[rows] = black - absorbed
    return rgb


def lab_to_rgb(lab: np.ndarray, *, signed: bool) -> np.ndarray:
    """(H, W, 3) L*a*b* of TIFF, uint8 or uint16, as sRGB of the same type.

    L* of 0..100 takes the whole range. a* and b* are two's complement if `signed` (CIELab), else offset by
    half the range (ICCLab); 16 bits hold 256ths. The white is D50.
    """
    full = np.iinfo(lab.dtype).max
    rgb = np.empty_like(lab)
    for rows in _rows(lab):
        part = lab[rows]
        lightness = part[..., 0].astype(np.float32) * (100 / (full if signed or full == 255 else 65280))
        step = 1 if full == 255 else 256
        chroma = part[..., 1:]
        if signed:
            ab = chroma.view(np.int8 if full == 255 else np.int16).astype(np.float32) / step
        else:
            ab = chroma.astype(np.float32) / step - 128
        rgb[rows] = np.rint(_srgb(lightness, ab) * full)
    return rgb


def _rows(array: np.ndarray) -> Iterator[slice]:
    step = max(1, _AT_ONCE // array.shape[1])
    return (slice(top, top + step) for top in range(0, len(array), step))


def _srgb(lightness: np.ndarray, ab: np.ndarray) -> np.ndarray:
    """CIE 15 and IEC 61966-2-1: L* (h, w), a* b* (h, w, 2) as sRGB of 0..1 (h, w, 3)."""
    y = (lightness + 16) / 116
    cubic = np.stack([y + ab[..., 0] / 500, y, y - ab[..., 1] / 200], axis=-1)
    xyz = np.where(cubic > 6 / 29, cubic**3, (cubic - 4 / 29) * (108 / 841)) * _WHITE_D50
    # term by term: a matrix product rounds by the place of a pixel, and a window would differ from the whole
    terms = [xyz[..., i, None] * _TO_LINEAR[:, i] for i in range(3)]
    linear = (terms[0] + terms[1] + terms[2]).clip(0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
