"""The transforms of albumentations that change colours, on images of any type."""

from typing import Any

import albumentations
import numpy as np

from hires.interfaces import Normalization


def in_range(transform: Any, normalization: Normalization) -> Any:
    """A transform, or a tree of them, in which those that change colours work on floats from 0 to 1.

    They are made for 8-bit images and such floats: 16-bit ones they refuse, or change by shares of a range that
    the pixels hardly fill. Transforms that move pixels take all types, and keep their values.
    """
    if isinstance(transform, albumentations.BaseCompose):
        transform.transforms = [in_range(inner, normalization) for inner in transform.transforms]
        return transform
    if not isinstance(transform, albumentations.ImageOnlyTransform):
        return transform
    share, transform.p = transform.p, 1.0
    return InRange(transform, share, normalization.low, normalization.high)


class InRange(albumentations.Sequential):
    """One transform that sees pixels (H, W, C) from `low` to `high` as 0 to 1. It cuts off all others."""

    def __init__(self, transform: Any, p: float, low: tuple[float, ...], high: tuple[float, ...]):
        super().__init__([transform], p=p)
        self.low, self.span = np.array(low), np.subtract(high, low)

    def __call__(self, *args: Any, force_apply: bool = False, **data: Any) -> dict[str, Any]:
        if not (force_apply or self.py_random.random() < self.p):
            return data
        image = data["image"]
        shares = ((image - self.low) / self.span).clip(0, 1).astype(np.float32)
        result: dict[str, Any] = super().__call__(*args, force_apply=True, **{**data, "image": shares})
        changed = np.asarray(result["image"])
        pixels = changed.reshape(*changed.shape[:2], -1).clip(0, 1) * self.span + self.low
        kind = image.dtype
        if kind.kind != "f":
            pixels = pixels.round().clip(np.iinfo(kind).min, np.iinfo(kind).max)
        result["image"] = pixels.astype(kind)
        return result
