"""Augmentation by albumentations; nothing else in hires knows that library."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cv2
import numpy as np

from hires.interfaces import IGNORE, ConfigError

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # otherwise importing it asks a server for its version

_EXACT = (cv2.INTER_NEAREST, cv2.INTER_NEAREST_EXACT)
Arrays = dict[str, np.ndarray]


class Augment:
    """Applies albumentations transforms to {"image": (H, W, C) uint8, "mask": (H, W) uint8}.

    The mask's border after rotations and the like is IGNORE: a transform whose `fill_mask` is 0, which is
    the library's default, gets IGNORE instead, since 0 is a class. D4 leaves out the quarter turns of windows
    that are not square. Size and type must stay what they are.
    No transforms: the arrays as they came. Raises ConfigError for transforms that cannot be used here.
    """

    def __init__(self, transforms: Iterable[Any] = ()):
        self.transforms = list(transforms)
        self._square = _compose(self.transforms)
        self._oblong = _compose([_keeping_shape(transform) for transform in self.transforms])
        for transform in _leaves(self.transforms):
            _guard_mask(transform)

    def __call__(self, arrays: Arrays, seed: Sequence[int]) -> Arrays:
        """The augmented arrays; a function of them and of `seed`, non-negative whole numbers."""
        height, width = arrays["image"].shape[:2]
        compose = self._square if height == width else self._oblong
        # seeded for every sample: the library's own seeding repeats itself in worker processes
        compose.set_random_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        result = compose(**arrays)
        return {name: self._unchanged_kind(name, array, result[name]) for name, array in arrays.items()}

    def _unchanged_kind(self, name: str, before: np.ndarray, after: Any) -> np.ndarray:
        after = np.asarray(after)
        if (*after.shape, 1) == before.shape:  # some transforms drop a single channel
            after = after[..., None]
        if after.shape != before.shape or after.dtype != before.dtype:
            raise ConfigError(
                f"augmentation: {name} went in as {before.dtype} {before.shape} and came out as "
                f"{after.dtype} {after.shape}; size and type must stay (crops and normalisation are done "
                f"elsewhere), given: {', '.join(type(t).__name__ for t in self.transforms)}"
            )
        return after


class _Identity:
    def set_random_seed(self, seed: int) -> None:
        """Has no randomness."""

    def __call__(self, **arrays: np.ndarray) -> Arrays:
        return arrays


def _compose(transforms: list[Any]) -> Any:
    if not transforms:
        return _Identity()
    import albumentations  # takes seconds: only who augments pays

    return albumentations.Compose(transforms)


def _keeping_shape(transform: Any) -> Any:
    """D4 without the elements that turn an image on its side, which are its two flips; others as they are."""
    if type(transform).__name__ != "D4":
        return transform
    import albumentations

    flips = [albumentations.HorizontalFlip(p=0.5), albumentations.VerticalFlip(p=0.5)]
    return albumentations.Sequential(flips, p=transform.p)


def _leaves(transforms: Iterable[Any]) -> Iterator[Any]:
    for transform in transforms:
        inner = getattr(transform, "transforms", None)
        if inner is None:
            yield transform
        else:
            yield from _leaves(inner)


def _guard_mask(transform: Any) -> None:
    if getattr(transform, "fill_mask", None) == 0:
        transform.fill_mask = IGNORE
    if getattr(transform, "mask_interpolation", cv2.INTER_NEAREST) not in _EXACT:
        raise ConfigError(
            f"augmentation: {type(transform).__name__} has mask_interpolation="
            f"{transform.mask_interpolation}, which mixes class indices; allowed: {_EXACT[0]} (nearest), "
            f"{_EXACT[1]} (nearest, exact)"
        )
