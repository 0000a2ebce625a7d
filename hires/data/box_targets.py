"""Boxes, and masks of single objects, as training targets."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from hires.data.augment import Augment
from hires.data.box_arrays import clipped, painted, pasted
from hires.data.box_counts import most_in_window
from hires.data.box_focus import BalancedPlacement, BoxFocus
from hires.data.placement import Placement
from hires.data.settings import DetectionSource, WindowSettings
from hires.data.targets import Arrays, Part
from hires.interfaces import Target
from hires.ops.windows import Size

_ROUNDING = 1e-6  # of a visible share


class BoxTargets:
    """Targets `boxes` (N, 4) float64 within the window, `labels` (N,) int64, `ignored` (N,) bool, and `shares`
    (N,) float64: how much of an object's box is left of what was annotated; with instance masks also `masks`
    (N, H, W) uint8. No object that shows is left out: one with too small a share is ignored.
    """

    def __init__(self, source: DetectionSource, settings: WindowSettings):
        self.source, self.settings = source, settings

    def placement(self) -> Placement:
        share, negatives = self.settings.focus, self.settings.negatives
        by_area = self.settings.sampling == "area"
        if share == 0 and negatives is None:
            return Placement(self.source, None, 0.0, by_area)
        focus = BoxFocus(self.source, self.settings.focus_classes, self.settings.min_visibility)
        if negatives is None:
            return Placement(self.source, focus, share, by_area)
        return BalancedPlacement(self.source, focus, share, negatives, by_area)

    def shown(self, target: Arrays, before: Size, after: Size) -> Arrays:
        scale = np.divide(after, before)[::-1]  # x, y
        whole = target["boxes"].astype(np.float64) * np.tile(scale, 2)
        boxes, shares = clipped(whole, after)
        kept = np.flatnonzero(shares > 0)
        shown = {
            "boxes": boxes[kept],
            "labels": target["labels"][kept],
            "ignored": target["ignored"][kept],
            "shares": shares[kept],
        }
        if self.source.instance_masks:
            shown["masks"] = painted([target["masks"][index] for index in kept], before, after)
        return shown

    def padded(self, target: Arrays, size: Size) -> Arrays:
        if "masks" not in target or target["masks"].shape[1:] == tuple(size):
            return target
        return {**target, "masks": pasted(target["masks"], 0, 0, size)}

    def joined(self, parts: Sequence[Part], size: Size) -> Arrays:
        moved = []
        for y, x, target in parts:
            part = {**target, "boxes": target["boxes"] + (x, y, x, y)}
            if "masks" in target:
                part["masks"] = pasted(target["masks"], y, x, size)
            moved.append(part)
        return {name: np.concatenate([part[name] for part in moved]) for name in moved[0]}

    def augmented(
        self, image: np.ndarray, target: Arrays, augment: Augment, seed: Sequence[int]
    ) -> tuple[np.ndarray, Arrays]:
        moving: Arrays = {name: target[name] for name in ("boxes", "masks") if name in target}
        result = augment.with_boxes({"image": image, **moving}, seed)
        image, objects, shares = (result.pop(name) for name in ("image", "objects", "shares"))
        staying: Arrays = {name: target[name][objects] for name in ("labels", "ignored")}
        return image, {**result, **staying, "shares": target["shares"][objects] * shares}

    def tensors(self, target: Arrays, size: Size) -> Target:
        boxes = target["boxes"].astype(np.float32)
        hidden = target["shares"] < self.settings.min_visibility - _ROUNDING
        too_small = (boxes[:, 2:] - boxes[:, :2]).min(axis=1) < 1  # pixels: nothing can be matched to it
        arrays = {
            "boxes": boxes,
            "labels": target["labels"],
            "ignored": target["ignored"] | hidden | too_small,
            "size": np.array(size, np.int64),
        }
        if "masks" in target:
            arrays["masks"] = target["masks"]
        return {name: torch.from_numpy(np.require(a, requirements=["C", "W"])) for name, a in arrays.items()}

    def most_objects(self, size: Size | None) -> int:
        return most_in_window(self._boxes, size)

    @cached_property
    def _boxes(self) -> list[np.ndarray]:
        """Boxes (N, 4) of every image."""
        return [self.source.objects(index)["boxes"] for index in range(len(self.source))]
