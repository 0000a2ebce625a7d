"""Augmentation by albumentations; nothing else in hires but `augment_range` knows that library."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import cv2
import numpy as np

from hires.interfaces import IGNORE, ConfigError, Normalization

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # otherwise importing it asks a server for its version

_EXACT = (cv2.INTER_NEAREST, cv2.INTER_NEAREST_EXACT)
_TRIED = (128, 128)  # pixels of an image that a transform is tried on
Arrays = dict[str, np.ndarray]


class Augment:
    """Applies albumentations transforms to windows, with a mask or with boxes.

    A mask's border after rotations and the like is IGNORE: a transform whose `fill_mask` is 0, which is
    the library's default, gets IGNORE instead, since 0 is a class. D4 leaves out the quarter turns of windows
    that are not square. Size and type must stay what they are. With boxes such borders are filled: mirrored
    objects would have none.
    No transforms: the arrays as they came. Raises ConfigError for transforms that cannot be used here.
    """

    def __init__(self, transforms: Iterable[Any] = ()):
        self.transforms = list(transforms)
        for_boxes = deepcopy(self.transforms)  # a transform belongs to one pipeline, and fills differ
        self._with_mask = _both_shapes(self.transforms)
        self._with_boxes = _both_shapes(for_boxes, bbox_params={"format": "albumentations"})
        for transform in _leaves(self.transforms):
            _guard_mask(transform)
        for transform in _leaves(for_boxes):
            _guard_objects(transform)
        for compose in self._with_boxes if for_boxes else ():
            compose.processors["bboxes"].filter = _cut

    def of(self, normalization: Normalization) -> "Augment":
        """The same transforms for images of a type and a number of channels that are normalised so.

        Raises ConfigError for a transform that cannot be used on them.
        """
        ordinary = normalization.dtype == "uint8" and len(normalization.low) in (1, 3)
        if ordinary or not self.transforms:
            return self
        augment = self if normalization.dtype == "uint8" else Augment(_in_range(self.transforms, normalization))
        for transform in _leaves(self.transforms):
            _try_on(transform, normalization)
        return augment

    def __call__(self, arrays: Arrays, seed: Sequence[int]) -> Arrays:
        """The augmented {"image": (H, W, C), "mask": (H, W) uint8}.

        A function of the arrays and of `seed`, non-negative whole numbers.
        """
        result = self._run(self._with_mask, arrays, seed)
        return {name: self._unchanged_kind(name, array, result[name]) for name, array in arrays.items()}

    def with_boxes(self, arrays: Arrays, seed: Sequence[int]) -> Arrays:
        """The augmented {"image": (H, W, C), "boxes": (N, 4) x1 y1 x2 y2, maybe "masks": (N, H, W) uint8}.

        Boxes are pixels within the image, before and after. The result holds the objects that still show, and
        `objects` (M,), their indices, and `shares` (M,), what the image's borders have left of their boxes.
        """
        boxes = arrays["boxes"]
        height, width = arrays["image"].shape[:2]
        scale = np.array((width, height, width, height), np.float64)
        # two columns more: which object it is, and how much of it is left
        rows = np.column_stack([boxes / scale, np.arange(len(boxes)), np.ones(len(boxes))])
        given = {"image": arrays["image"], "bboxes": rows}
        if "masks" in arrays and len(boxes):
            given["masks"] = arrays["masks"]
        result = self._run(self._with_boxes, given, seed)
        rows = np.asarray(result["bboxes"])
        objects = rows[:, 4].astype(np.int64)
        self._check_whole(objects)
        moved = {
            "image": self._unchanged_kind("image", arrays["image"], result["image"]),
            "boxes": (rows[:, :4] * scale).astype(boxes.dtype),
            "objects": objects,
            "shares": rows[:, 5],
        }
        if "masks" in arrays:
            masks = np.asarray(result.get("masks", arrays["masks"]))
            moved["masks"] = self._unchanged_kind("masks", arrays["masks"], masks)[objects]
        return moved

    def _check_whole(self, objects: np.ndarray) -> None:
        if len(np.unique(objects)) < len(objects):
            raise ConfigError(
                "augmentation: an object came out in several pieces, which one box cannot describe; allowed: "
                f"transforms that keep objects whole, given: {self._names()}"
            )

    def _names(self) -> str:
        return ", ".join(type(transform).__name__ for transform in self.transforms)

    def _run(self, composes: tuple[Any, Any], arrays: Arrays, seed: Sequence[int]) -> dict[str, Any]:
        """What the library makes of the arrays."""
        height, width = arrays["image"].shape[:2]
        compose = composes[height != width]
        # seeded for every sample: the library's own seeding repeats itself in worker processes
        compose.set_random_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        result: dict[str, Any] = compose(**arrays)
        return result

    def _unchanged_kind(self, name: str, before: np.ndarray, after: Any) -> np.ndarray:
        after = np.asarray(after)
        if (*after.shape, 1) == before.shape:  # some transforms drop a single channel
            after = after[..., None]
        if after.shape != before.shape or after.dtype != before.dtype:
            raise ConfigError(
                f"augmentation: {name} went in as {before.dtype} {before.shape} and came out as "
                f"{after.dtype} {after.shape}; size and type must stay (crops and normalisation are done "
                f"elsewhere), given: {self._names()}"
            )
        return after


def _in_range(transforms: list[Any], normalization: Normalization) -> list[Any]:
    """Copies of transforms that take images which are no 8-bit ones."""
    from hires.data.augment_range import in_range

    return [in_range(deepcopy(transform), normalization) for transform in transforms]


def _try_on(transform: Any, normalization: Normalization) -> None:
    """Raises ConfigError where a transform by itself cannot be used on images that are normalised so."""
    dtype, channels = np.dtype(normalization.dtype), len(normalization.low)
    alone = deepcopy(transform)
    alone.p = 1.0
    rng = np.random.default_rng(0)
    image = rng.uniform(normalization.low, normalization.high, (*_TRIED, channels)).astype(dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            augment = Augment(_in_range([alone], normalization) if dtype != np.uint8 else [alone])
            augment({"image": image, "mask": np.zeros(_TRIED, np.uint8)}, [0])
    except Exception as error:  # of any kind: each transform has its own
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"augmentation: {type(transform).__name__} cannot be used on {dtype} images with {channels} "
            f"channel(s) ({reason}); leave it out, for example by augmentation=light or augmentation=flips"
        ) from error


class _Identity:
    def set_random_seed(self, seed: int) -> None:
        """Has no randomness."""

    def __call__(self, **arrays: np.ndarray) -> Arrays:
        return arrays


def _both_shapes(transforms: list[Any], **options: Any) -> tuple[Any, Any]:
    """Pipelines for square windows and for others."""
    if not transforms:
        return _Identity(), _Identity()
    import albumentations  # takes seconds: only who augments pays

    oblong = [_keeping_shape(transform) for transform in transforms]
    with warnings.catch_warnings():  # of boxes that nothing moves
        warnings.simplefilter("ignore", UserWarning)
        return albumentations.Compose(transforms, **options), albumentations.Compose(oblong, **options)


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


def _guard_objects(transform: Any) -> None:
    """Makes borders show no object, and masks of objects 0 there."""
    if getattr(transform, "border_mode", None) is not None:
        transform.border_mode = cv2.BORDER_CONSTANT
    if getattr(transform, "fill_mask", None) is not None:
        transform.fill_mask = 0


def _cut(rows: np.ndarray, shape: Any) -> np.ndarray:
    """The library's filter after each transform: clips boxes and drops those outside.

    rows: (N, 6) x1 y1 x2 y2 in shares of the image, index, and the share of the box left so far.
    """
    if not len(rows):
        return rows
    inside = rows[:, :4].clip(0, 1)
    whole, left = (np.prod((b[:, 2:] - b[:, :2]).clip(0), axis=1) for b in (rows[:, :4], inside))
    share = np.divide(left, whole, out=np.zeros(len(rows)), where=whole > 0)
    return np.column_stack([inside, rows[:, 4], rows[:, 5] * share])[share > 0]
