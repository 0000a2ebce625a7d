"""Masks as training targets."""

from collections.abc import Sequence

import numpy as np
import torch

from hires.data.augment import Augment
from hires.data.focus import ClassIndex
from hires.data.placement import Placement
from hires.data.settings import SegmentationSource, WindowSettings
from hires.data.targets import Arrays, Part
from hires.interfaces import IGNORE, Target
from hires.ops.padding import pad_to, resize_mask
from hires.ops.windows import Size
from hires.settings import SettingError


class MaskTargets:
    """Targets {"mask": (H, W) uint8}. Raises SettingError for settings that only objects can have."""

    def __init__(self, source: SegmentationSource, settings: WindowSettings):
        if settings.negatives is not None:
            raise SettingError("data.window.negatives", settings.negatives, "null with masks; boxes can have it")
        self.source, self.settings = source, settings

    def placement(self) -> Placement:
        focus = self.settings.focus
        index = ClassIndex(self.source, self.settings.focus_classes) if focus > 0 else None
        return Placement(self.source, index, focus, self.settings.sampling == "area")

    def shown(self, target: Arrays, before: Size, after: Size) -> Arrays:
        return {"mask": target["mask"] if before == after else resize_mask(target["mask"], after)}

    def padded(self, target: Arrays, size: Size) -> Arrays:
        return {"mask": pad_to(target["mask"], *size, IGNORE)}

    def joined(self, parts: Sequence[Part], size: Size) -> Arrays:
        mask = np.full(size, IGNORE, np.uint8)
        for y, x, target in parts:
            height, width = target["mask"].shape
            mask[y : y + height, x : x + width] = target["mask"]
        return {"mask": mask}

    def augmented(
        self, image: np.ndarray, target: Arrays, augment: Augment, seed: Sequence[int]
    ) -> tuple[np.ndarray, Arrays]:
        result = augment({"image": image, **target}, seed)
        return result.pop("image"), result

    def tensors(self, target: Arrays, size: Size) -> Target:
        # what comes from a memory map may be read-only, which tensors cannot be
        return {"mask": torch.from_numpy(np.require(target["mask"], requirements=["C", "W"]))}

    def most_objects(self, size: Size | None) -> int:
        return 0
