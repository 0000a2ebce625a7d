"""Semantic segmentation as a task: network, loss and stitching of window predictions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hires.evaluation.segmentation import LabelRows, SegmentationEvaluator
from hires.interfaces import Batch, DataLimits, Target, View
from hires.losses.segmentation import LossSettings, SegmentationLoss, upsample
from hires.ops.blend import blend
from hires.settings import Settings


@dataclass(frozen=True)
class SegmentationSettings(Settings):
    """How a segmentation network is trained and scored."""

    loss: LossSettings = field(default_factory=LossSettings)

    def build(self, network: Any, num_classes: int) -> "SegmentationTask":
        """The task of a network: a module with `backbone`, `stride` and `stages()`."""
        return SegmentationTask(network=network, loss=self.loss.build(num_classes))

    def evaluator(self, classes: tuple[str, ...]) -> SegmentationEvaluator:
        return SegmentationEvaluator(classes)


class SegmentationTask(nn.Module):
    """One class for each pixel. Images (B, C, H, W) uint8 or uint16, masks (H, W) uint8 in `target["mask"]`."""

    def __init__(self, *, network: Any, loss: SegmentationLoss):
        super().__init__()
        self.normalize = Normalize(network.backbone.mean, network.backbone.std)
        self.network, self.loss = network, loss

    def normalizers(self, targets: list[Target]) -> dict[str, Tensor]:
        return self.loss.normalizers([target["mask"] for target in targets])

    def forward(self, batch: Batch, normalizers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        logits = self.network(self.normalize(batch.images))
        masks = torch.stack([target["mask"] for target in batch.targets])
        return self.loss(logits, masks, normalizers)

    def predict(self, batch: Batch) -> Tensor:
        """Probabilities (B, K, H, W), float32."""
        logits = self.network(self.normalize(batch.images))
        return upsample(logits.float(), batch.images.shape[-2:]).softmax(1)

    def stitch(self, size: tuple[int, int], predictions: Iterable[tuple[View, Tensor]]) -> Iterator[LabelRows]:
        for top, probabilities in blend(size, predictions):
            yield LabelRows(top, probabilities.argmax(0).byte().cpu().numpy())

    def example_batch(self, size: int, image_size: tuple[int, int], limits: DataLimits) -> Batch:
        """Random pixels of every class: the memory of segmentation depends on nothing else."""
        generator = torch.Generator().manual_seed(0)
        channels, classes = len(self.normalize.mean), self.loss.num_classes
        images = torch.randint(256, (size, channels, *image_size), dtype=torch.uint8, generator=generator)
        masks = torch.randint(classes, (size, *image_size), dtype=torch.uint8, generator=generator)
        return Batch(images, [{"mask": mask} for mask in masks])

    def stages(self) -> dict[str, tuple[str, ...]]:
        named = {s: tuple(f"network.{name}" for name in names) for s, names in self.network.stages().items()}
        return {**named, "loss": ("loss",)}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """timm's layer groups of the backbone; what follows the backbone is the last layer."""
        return self.network.backbone.group_matcher("network.backbone.", coarse)


class Normalize(nn.Module):
    """Pixels of an integer type to floats with the mean and deviation of the pretraining, once.

    `mean` and `std`, one per channel, belong to pixels scaled to 0..1 by the range of their type.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        scale = torch.iinfo(images.dtype).max
        return (images.float() - self.mean * scale) / (self.std * scale)
