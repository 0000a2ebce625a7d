"""Mask R-CNN: Faster R-CNN with a mask for every box."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from hires.interfaces import Target
from hires.models.backbone import Backbone
from hires.models.detection.faster_rcnn import FasterRcnn, FasterRcnnSettings
from hires.models.detection.regions import MaskHead
from hires.models.network import Channels
from hires.ops.boxes import Detections
from hires.ops.dense import Choice
from hires.ops.two_stage import Drawn, JudgedMasks, Proposed, masks_in_boxes, shares
from hires.settings import Bounds


@dataclass(frozen=True)
class MaskRcnnSettings(FasterRcnnSettings):
    """Shape of a Mask R-CNN (He et al. 2017), with the heads of torchvision."""

    task = "mask_rcnn"

    mask_convs: Annotated[int, Bounds(1, 8)] = 4
    mask_channels: Channels = 256

    def network(self, backbone: Backbone, num_classes: int) -> FasterRcnn:
        mask = MaskHead(
            levels=len(self.neck.levels),
            channels=self.neck.channels,
            num_classes=num_classes,
            hidden=[self.mask_channels] * self.mask_convs,
        )
        return self.assemble(backbone, num_classes, MaskRcnn, {"mask": mask})


class MaskRcnn(FasterRcnn):
    """Targets have `masks` (N, H, W) uint8; masks are learnt in the drawn boxes with objects."""

    def judge_masks(
        self, features: list[Tensor], drawn: Sequence[Drawn], targets: list[Target], extent: tuple[int, int]
    ) -> JudgedMasks:
        boxes = [some.boxes[some.matched] for some in drawn]
        objects = [some.objects[some.matched] for some in drawn]
        labels = [target["labels"][some] for target, some in zip(targets, objects, strict=True)]
        logits = self.head["mask"](features, boxes, torch.cat(labels), extent)
        wanted = [
            masks_in_boxes(target["masks"], of_image, found, MaskHead.side)
            for target, of_image, found in zip(targets, boxes, objects, strict=True)
        ]
        return JudgedMasks(logits.float(), torch.cat(wanted), shares(objects))

    def detect(self, outputs: Proposed, extent: tuple[int, int], choice: Choice) -> list[Detections]:
        found = super().detect(outputs, extent, choice)
        labels, boxes = torch.cat([some.labels for some in found]), [some.boxes for some in found]
        masks = self.head["mask"](outputs.features, boxes, labels, extent).float().sigmoid()
        parts = masks.split([len(some) for some in boxes])
        return [some._replace(masks=mask, frames=some.boxes) for some, mask in zip(found, parts, strict=True)]
