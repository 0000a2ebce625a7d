"""Pixels to put into image files."""

import numpy as np

H, W = 37, 53


def samples(dtype: str, *shape: int, below: int | None = None, seed: int = 0) -> np.ndarray:
    """Values over the whole range of a type; of floats a normal distribution."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "f":
        return rng.normal(size=shape).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max + 1 if below is None else below, shape, kind)


def smooth(bands: int = 3, height: int = H, width: int = W) -> np.ndarray:
    """Slow waves, for codecs that lose something."""
    y, x = np.mgrid[:height, :width]
    waves = [128 + 100 * np.sin(y / (7 + i) + x / (11 - i)) for i in range(bands)]
    return np.stack(waves, axis=-1).astype(np.uint8)


def flat(array: np.ndarray) -> np.ndarray:
    return array if array.ndim == 3 else array[:, :, None]
