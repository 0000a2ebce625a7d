"""What a survey of a data set suggests for the settings of a training, as values of configuration keys."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from hires.data.checks.classes import SMALL, scale_of
from hires.data.checks.finding import percent, times
from hires.data.checks.survey import Survey
from hires.data.checks.things import Things
from hires.losses.balance import balanced_weights
from hires.memory.policies import AUTO
from hires.models.detection.anchors import AnchorSettings
from hires.ops.shapes import recall
from hires.recipe import Recipe

_STEP = 32  # pixels: the stride of every backbone, of which sizes are multiples
_ROOM = 1.5  # times the length of an object that a window is to have
_SMALLEST, _LARGEST = 128, 1024  # windows that are proposed, pixels
_UNEVEN = 3  # times as many pixels, from which on class weights are proposed
_RARE = 0.02  # share of the pixels below which a class is sought for windows
_MATTERS = 0.1  # share of a class that is lost in resized images
_FAINT = 0.06  # deviation of pixels, of their range: that of photographs is 0.2 and more
_FEW = 10  # boxes that say too little of a level's anchors
_GAIN = 0.005  # of recall


class Proposal(NamedTuple):
    """A value for a key of the configuration, and why."""

    key: str
    value: Any
    reason: str


def proposals(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """What to set, in the order in which the configuration has the keys."""
    parts = (_window, _fit, _bands, _normalization, _focus, _anchors, _class_weights)
    return [proposal for part in parts for proposal in part(recipe, survey)]


def _window(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """A window with room for nearly all objects, or not larger than nearly all images."""
    size = recipe.usual_size
    if recipe.data.fit != "window" or not survey.sizes.any():
        return []
    if survey.things is not None and survey.things.counted.any():
        return _object_window(survey.things, size, int(survey.sizes.max()))
    shorter = survey.sizes[survey.sizes.all(axis=1)].min(axis=1)
    usual = float(np.percentile(shorter, 90))
    why = f"90 % of the images have a side of at most {usual:.0f} px: larger windows are mostly padding"
    if recipe.top.image_size == AUTO:
        most, side = recipe.memory.max_image_size, max(_STEP, _rounded(usual))
        return [Proposal("memory.max_image_size", side, why)] if most is not None and side < most else []
    if usual < min(size):
        return [Proposal("image_size", min(max(_STEP, _rounded(usual)), *size), why)]
    share = percent(float((shorter >= min(size)).mean()))
    return [Proposal("image_size", _plain(size), f"{share} of the images are at least as large")]


def _object_window(things: Things, size: tuple[int, int], longest: int) -> list[Proposal]:
    """A window with room for nearly all objects, not larger than images, whose sides are `longest` at most."""
    usual, most = float(np.percentile(things.sides[things.counted].max(axis=1), 95)), _rounded(longest)
    what = f"95 % of the objects are at most {usual:.0f} px long"
    if usual * _ROOM <= min(size):
        value, why = _plain(size), "they fit into this window with room around them"
    else:
        value = int(np.clip(_rounded(2 * usual), _SMALLEST, _LARGEST))
        why = "this window has room for them and what is around"
    if np.min(value) > most:
        value, why = most, f"and no side of an image is longer than {longest} px: a larger window is padding"
        return [Proposal("image_size", value, f"{what}, {why}")]
    return [Proposal("image_size", value, f"{what}: {why}")]


def _rounded(side: float) -> int:
    return math.ceil(side / _STEP) * _STEP


def _plain(size: tuple[int, int]) -> int | list[int]:
    return size[0] if size[0] == size[1] else list(size)


def _fit(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """Windows, where resizing makes too much of a class too small."""
    size = recipe.usual_size
    lost = [
        (one.below_resized - one.below.get("3", one.below.get("4", 0.0)), one)
        for one in survey.classes
        if one.below_resized is not None
    ]
    if not lost:
        return []
    share, worst = max(lost, key=lambda item: item[0])
    if share <= _MATTERS:
        return []
    what = "objects" if survey.things is not None else "pixels"
    shown = "x".join(map(str, size)) if size[0] != size[1] else str(size[0])
    return [
        Proposal(
            "data.fit",
            "window",
            f"resized to {shown}, {percent(worst.below_resized or 0)} of the {what} of {worst.name} would be "
            f"under {SMALL} px",
        )
    ]


def _bands(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """The bands of the files, where the settings want others."""
    bands = survey.images()["bands"]
    if len(bands) != 1 or recipe.data.bands is not None:
        return []
    count = int(next(iter(bands)))
    if count in (1, 3) or count == recipe.data.channels:
        return []
    reason = f"the images have {count} bands"
    return [Proposal("data.channels", count, reason), Proposal("backbone.in_channels", count, reason)]


def _normalization(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """How pixels become numbers around zero."""
    images = survey.images()
    if len(images["types"]) != 1 or images["deviation"] is None or recipe.data.normalize == "window":
        return []
    (kind,), (low, high) = images["types"], images["range"]
    mean, deviation = (_listed(images[key]) for key in ("mean", "deviation"))
    numbers = f"pixels from {low:g} to {high:g}, mean {mean}, deviation {deviation}"
    if kind == "uint8":
        faint = max(images["deviation"]) < _FAINT * 255
        method = "mean_std" if faint else "dtype"
        why = "little of the range is used" if faint else "the range of the type suits them"
    elif kind == "float32" and low >= 0 and high <= 1:
        method, why = "dtype", "they lie within 0 to 1 already"
    else:
        method, why = "percentile", f"a small part of the range of {kind}, or outliers, would set the contrast"
    return [Proposal("data.normalize", method, f"{kind}, {numbers}: {why}")]


def _listed(values: Sequence[float]) -> str:
    return "/".join(f"{value:.3g}" for value in values)


def _train_pixels(survey: Survey) -> list[int]:
    return [one.counts.get("train", 0) for one in survey.classes]


def _focus(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """More windows on rare classes of masks."""
    counts = _train_pixels(survey)
    present = [count for count in counts if count]
    if survey.unit != "pixels" or recipe.data.fit != "window" or len(present) < 2:
        return []
    share = min(present) / sum(present)
    if share >= _RARE or recipe.data.window.focus >= 0.9:
        return []
    name = survey.classes[counts.index(min(present))].name
    return [Proposal("data.window.focus", 0.9, f"{name} is {percent(share)} of the training pixels")]


def _class_weights(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """Inverse square roots of the pixels, of mean 1 over the pixels."""
    counts = _train_pixels(survey)
    present = [count for count in counts if count]
    if survey.unit != "pixels" or len(present) < 2 or max(present) < _UNEVEN * min(present):
        return []
    weights = [float(f"{weight:.3g}") for weight in balanced_weights(counts, 0.5)]
    ratio = times(max(present) / min(present))
    why = (
        f"the most frequent class has {ratio} times the pixels of the rarest; halfway to equal shares of the loss"
    )
    return [Proposal("task.loss.class_weights", weights, why)]


def _anchors(recipe: Recipe, survey: Survey) -> list[Proposal]:
    """Sizes of the levels and aspects after the boxes, where more boxes then have an anchor."""
    settings, neck = getattr(recipe.model, "anchors", None), getattr(recipe.model, "neck", None)
    if not isinstance(settings, AnchorSettings) or neck is None or survey.things is None or settings.fit:
        return []
    shapes = _shown_shapes(recipe, survey)
    if len(shapes) < _FEW:
        return []
    first, last = min(neck.levels), max(neck.levels) + neck.extra_levels
    before = list(settings.sizes or [2**level * settings.size_in_strides for level in range(first, last + 1)])
    side, ratio = np.sqrt(shapes.prod(axis=1)), shapes[:, 1] / shapes[:, 0]
    centre = np.log(np.array(before)) + np.mean(np.log(settings.scales))
    nearest = np.abs(np.log(side)[:, None] - centre).argmin(axis=1)
    sizes = [
        float(f"{np.exp(np.log(side[mine]).mean() - np.mean(np.log(settings.scales))):.3g}")
        if (mine := nearest == level).sum() >= _FEW
        else before[level]
        for level in range(len(before))
    ]
    number = len(settings.aspects)
    aspects = [float(f"{value:.2g}") for value in np.quantile(ratio, (np.arange(number) + 0.5) / number)]
    old, new = (_recall(shapes, settings, *pair) for pair in ((before, settings.aspects), (sizes, aspects)))
    if new < old + _GAIN:
        return []
    why = f"{percent(new)} of the boxes then have an anchor of IoU 0.5 or more, {percent(old)} with those of now"
    return [Proposal("model.anchors.sizes", sizes, why), Proposal("model.anchors.aspects", aspects, "as above")]


def _shown_shapes(recipe: Recipe, survey: Survey) -> np.ndarray:
    """(N, 2) width and height of the training boxes as the network sees them, pixels."""
    things = survey.things
    assert things is not None
    members = np.isin(things.objects.images, np.array(survey.splits.get("train", []), np.int64))
    which, size = things.counted & members, recipe.usual_size
    shapes = np.maximum(things.sides[which], 1.0)
    if recipe.data.fit == "window":
        return shapes
    sizes = survey.sizes[things.objects.images[which]].tolist()
    return np.maximum(shapes * np.array([scale_of((h, w), size) for h, w in sizes])[:, None], 1.0)


def _recall(
    shapes: np.ndarray, settings: AnchorSettings, sizes: Sequence[float], aspects: Sequence[float]
) -> float:
    anchors = [
        (size * scale / math.sqrt(aspect), size * scale * math.sqrt(aspect))
        for size in sizes
        for scale in settings.scales
        for aspect in aspects
    ]
    return recall(torch.tensor(shapes, dtype=torch.float32), torch.tensor(anchors, dtype=torch.float32))
