"""What the demo images are painted with: brushed metal, its defects, and marks that resemble them.

Grooves and pits are dark with lit edges that outweigh the dark nearly exactly: at native resolution they
stand out, averaged over four pixels they leave about as much as the soft distractors do.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.random import Generator

RUST = (-6.0, -19.0, -36.0)
HEAT_TINT = (-32.0, -20.0, -2.0)
"""What a full-strength stain adds to (R, G, B), grey levels."""


class Patch(NamedTuple):
    """Something to add to an image."""

    delta: np.ndarray  # (h, w) or (h, w, 3) float32, grey levels
    mask: np.ndarray  # (h, w) bool, the pixels that count as the thing itself


# ---- the surface ----------------------------------------------------------------------------------


def surface(rng: Generator, size: int, tilt: float) -> np.ndarray:
    """A metal surface brushed along `tilt` (radians from horizontal, clockwise): (size, size, 3) float32."""
    light = 6.0 * _grain(rng, size, tilt, 91)
    light += 3.5 * _grain(rng, size, tilt, 13)
    light += 2.5 * _smooth(rng, size, max(size // 10, 2))
    light += 13.0 * _smooth(rng, size, 5)
    cast = _smooth(rng, size, 4)  # a second lamp of another colour
    tint, warmth = rng.uniform(123.0, 133.0, 3), rng.normal(0.0, 2.0, 3)
    return cv2.merge([light + (np.float32(t) + np.float32(w) * cast) for t, w in zip(tint, warmth, strict=True)])


def _grain(rng: Generator, size: int, tilt: float, length: int) -> np.ndarray:
    """Streaks `length` pixels long: (size, size) float32 of mean 0 and deviation 1."""
    rise = int(np.ceil(size * abs(np.tan(tilt)))) + 4
    noise = rng.integers(0, 256, (size + rise, size), dtype=np.uint8)
    # integers in, so that the sums are exact and no order of summation shows
    streaks = cv2.boxFilter(noise, cv2.CV_32F, (length, 1)) - 127.5
    streaks *= np.float32(length**0.5 / 73.9)
    shear = np.array([[1.0, 0.0, 0.0], [-np.tan(tilt), 1.0, 2.0 + max(size * np.tan(tilt), 0.0)]])
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(streaks, shear, (size, size), flags=flags, borderMode=cv2.BORDER_REFLECT)


def _smooth(rng: Generator, size: int, cells: int) -> np.ndarray:
    """Noise that varies over size / cells pixels: (size, size) float32."""
    coarse = rng.standard_normal((cells, cells), dtype=np.float32)
    return cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)


def add_sensor_noise(rng: Generator, image: np.ndarray) -> np.ndarray:
    """Noise of deviation 4 and rounding: (H, W, 3) uint8. Overwrites the float image."""
    noise = rng.integers(0, 256, image.shape, dtype=np.uint8).astype(np.float32)
    noise *= np.float32(4.0 / 73.9)
    image += noise
    image += np.float32(0.5 - 127.5 * 4.0 / 73.9)
    return np.clip(image, 0, 255, out=image).astype(np.uint8)


# ---- defects --------------------------------------------------------------------------------------


def scratch(rng: Generator, tilt: float, longest: float) -> Patch:
    """A curved groove across the grain, at most `longest` pixels long."""
    angle = tilt + rng.uniform(0.22, 0.78) * np.pi
    length = rng.uniform(15.0, longest)
    return _groove(rng, angle, length, bend=rng.uniform(-0.15, 0.15) * length)


def pit(rng: Generator, light: float) -> Patch:
    """A hole of 3 to 16 pixels whose edge is lit most on the side that `light` (radians) points to."""
    radius = 2.0 + 5.8 * rng.beta(1.4, 3.0)
    u, v = _axes(rng, 2 * int(radius) + 9, 2 * int(radius) + 9, rng.uniform(0, np.pi))
    reach = np.hypot(u, v / rng.uniform(0.85, 1.0))
    angle = np.arctan2(v, u)
    reach *= 1.0 + 0.06 * np.sin(3 * angle + rng.uniform(0, 6.28))
    core = _cover(0.68 * radius - reach)
    rim = _cover(radius - reach) - core
    lit = 1.0 + 0.45 * np.cos(angle - light)
    depth = rng.uniform(75.0, 95.0)
    delta = depth * (0.82 * rim * lit - core)
    return Patch(delta.astype(np.float32), reach <= radius)


def stain(rng: Generator, widest: float) -> Patch:
    """A soft-edged, mottled blob of rust or heat tint, 15 to `widest` pixels wide."""
    inside = _blob(rng, rng.uniform(9.5, widest / 2))
    softness = rng.uniform(1.5, 3.0)
    strength = np.clip(0.5 + inside / (2 * softness), 0, 1) * rng.uniform(0.8, 1.2)
    strength *= 1.0 + 0.35 * np.exp(-(((inside - softness) / 2.5) ** 2))  # dries darker at its edge
    mottle = cv2.resize(rng.standard_normal((7, 7)), inside.shape[::-1], interpolation=cv2.INTER_CUBIC)
    strength *= np.clip(1.0 + 0.15 * mottle, 0.6, 1.4)
    colour = np.array(RUST if rng.random() < 0.6 else HEAT_TINT)
    return Patch((strength[..., None] * colour).astype(np.float32), inside >= 0)


# ---- distractors: no defects ----------------------------------------------------------------------


def machining_mark(rng: Generator, tilt: float, longest: float) -> Patch:
    """A groove like a scratch, but straight and along the grain."""
    return _groove(rng, tilt + rng.uniform(-0.05, 0.05), rng.uniform(15.0, longest), bend=0.0)


def scuff(rng: Generator, tilt: float, longest: float) -> Patch:
    """A line across the grain like a scratch, but shallow: dark beside bright with no sharp edge."""
    angle = tilt + rng.uniform(0.15, 0.85) * np.pi
    length = rng.uniform(15.0, longest)
    u, v = _stroke(rng, angle, length, bend=rng.uniform(-0.15, 0.15) * length)
    fade = _cover((length / 2 - np.abs(u)) / 6.0)
    side = rng.choice([-3.0, 3.0])
    profile = 0.5 * np.exp(-(((v - side) / 2.2) ** 2)) - np.exp(-((v / 2.2) ** 2))
    delta = rng.uniform(15.0, 32.0) * fade * profile
    return Patch(delta.astype(np.float32), fade * profile < -0.5)


def lens_dust(rng: Generator) -> Patch:
    """A round spot out of focus: dark within a bright ring like a pit, but with no sharp edge."""
    radius = rng.uniform(2.5, 7.0)
    u, v = _axes(rng, 2 * int(radius) + 17, 2 * int(radius) + 17, 0.0)
    reach = np.hypot(u, v) / radius
    profile = 0.4 * np.exp(-(((reach - 1.1) / 0.45) ** 2)) - np.exp(-((reach / 0.7) ** 2))
    return Patch((rng.uniform(25.0, 42.0) * profile).astype(np.float32), reach <= 1)


def speck(rng: Generator) -> Patch:
    """Dust on the surface: a bright grain with a thin dark border, a pit with light and dark exchanged."""
    radius = rng.uniform(2.0, 5.0)
    u, v = _axes(rng, 2 * int(radius) + 9, 2 * int(radius) + 9, rng.uniform(0, np.pi))
    reach = np.hypot(u, v / rng.uniform(0.6, 1.0))
    core = _cover(0.66 * radius - reach)
    border = _cover(radius - reach) - core
    delta = rng.uniform(45.0, 65.0) * (core - border)
    return Patch(delta.astype(np.float32), reach <= radius)


def shadow(rng: Generator, widest: float) -> Patch:
    """A blob like a stain, but gray: it takes the same from every channel."""
    inside = _blob(rng, rng.uniform(9.0, widest / 2))
    strength = np.clip(0.5 + inside / rng.uniform(7.0, 12.0), 0, 1)
    return Patch((-rng.uniform(14.0, 26.0) * strength).astype(np.float32), inside >= 0)


# ---- shapes ---------------------------------------------------------------------------------------


def _groove(rng: Generator, angle: float, length: float, bend: float) -> Patch:
    """A line 1 to 3 pixels wide with a dark core between two lit lips of unequal height."""
    u, v = _stroke(rng, angle, length, bend)
    half = rng.uniform(0.75, 1.6)
    core = _cover(half - np.abs(v))
    first, second = rng.permutation([1.15, 0.65])
    lips = first * np.exp(-(((v - half - 0.9) / 0.8) ** 2)) + second * np.exp(-(((v + half + 0.9) / 0.8) ** 2))
    balance = half / (0.8 * 0.9 * np.pi**0.5)  # lips as bright in sum as the core is dark
    depth = rng.uniform(70.0, 95.0) * (1.0 + 0.2 * np.sin(u / 7.0 + rng.uniform(0, 6.28)))
    fade = _cover((length / 2 - np.abs(u)) / 3.0)
    delta = depth * fade * (0.95 * min(balance, 1.0) * lips - core)
    return Patch(delta.astype(np.float32), (np.abs(v) <= half) & (np.abs(u) <= length / 2))


def _stroke(rng: Generator, angle: float, length: float, bend: float) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates along and signed distance from a parabola of `length` pixels that rises by `bend`."""
    sine, cosine = abs(np.sin(angle)), abs(np.cos(angle))
    height = int(length * sine + abs(bend) * cosine) + 12
    width = int(length * cosine + abs(bend) * sine) + 12
    u, v = _axes(rng, height, width, angle)
    t = 2 * u / length
    slope = -4 * bend * t / length
    return u, (v - bend * (0.5 - t * t)) / np.sqrt(1 + slope * slope)


def _blob(rng: Generator, radius: float) -> np.ndarray:
    """Distance in pixels to an irregular outline, positive within: (h, w). No point is beyond `radius`."""
    side = 2 * int(radius) + 19
    u, v = _axes(rng, side, side, 0.0)
    angle = np.arctan2(v, u)
    outline = np.zeros_like(u)
    for k in range(1, 8):
        outline += rng.uniform(0.3, 1.0) / k**0.7 * np.cos(k * angle + rng.uniform(0, 6.28))
    return radius * (1.0 - 0.13 * (outline.max() - outline)) - np.hypot(u, v)


def _axes(rng: Generator, height: int, width: int, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (h, w) along `angle` and across it, in pixels from a random point near the centre."""
    dy, dx = rng.uniform(-0.5, 0.5, 2)
    y = np.arange(height)[:, None] - (height - 1) / 2 - dy
    x = np.arange(width)[None, :] - (width - 1) / 2 - dx
    return x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)


def _cover(distance: np.ndarray) -> np.ndarray:
    """How much of a pixel lies within an edge `distance` pixels away: 0 to 1."""
    return np.clip(distance + 0.5, 0, 1)
