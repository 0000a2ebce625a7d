"""Semantic segmentation as a task: network, loss and stitching of window predictions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hires.data.focus import class_pixels
from hires.data.settings import SegmentationSource
from hires.evaluation.segmentation import LabelRows, MultilabelEvaluator, SegmentationEvaluator
from hires.interfaces import Batch, ConfigError, DataLimits, Target, View
from hires.losses.chunks import upsample
from hires.losses.segmentation import LossSettings, SegmentationLoss
from hires.ops.blend import blend
from hires.settings import Settings
from hires.tasks.graphs import Exportable, GraphSettings, segmentation_graph
from hires.tasks.network_task import NetworkTask, demand


@dataclass(frozen=True)
class SegmentationSettings(Settings):
    """How a segmentation network is trained and scored."""

    loss: LossSettings = field(default_factory=LossSettings)
    multilabel: bool = False  # any number of classes a pixel, in masks of bit fields (hires.ops.labels)

    kind = "segmentation"
    metric = "mIoU"
    padding = None  # mirrored

    def build(
        self, network: Any, num_classes: int, source: SegmentationSource | None = None
    ) -> "SegmentationTask":
        """The task of a network: a module with `backbone`, `stride` and `stages()`.

        `source` is the training data; all its masks are read if the loss weighs classes by their pixels.
        Without it, as in evaluation, such weights are all 1. Raises ConfigError for a number of classes that
        masks cannot hold, and where data and task disagree on what a mask is.
        """
        if source is not None:
            demand(source, "mask", "masks", "data=mask_folder, or a detector such as model=fcos")
        if source is not None and source.multilabel != self.multilabel:
            raise ConfigError(
                f"task.multilabel: got {self.multilabel}, but data.multilabel is {source.multilabel}; "
                "set both by model.multilabel"
            )
        pixels = None if source is None else lambda: class_pixels(source).tolist()
        loss = self.loss.build(num_classes, multilabel=self.multilabel, pixels=pixels)
        return SegmentationTask(network=network, loss=loss)

    def evaluator(self, classes: tuple[str, ...]) -> SegmentationEvaluator:
        return MultilabelEvaluator(classes) if self.multilabel else SegmentationEvaluator(classes)


class SegmentationTask(NetworkTask):
    """One class for each pixel, or with several labels any number of them.

    `target["mask"]` is (H, W) uint8, class indices or bit fields.
    """

    def __init__(self, *, network: Any, loss: SegmentationLoss):
        super().__init__(network=network, loss=loss)
        self.labels = loss.labels

    def normalizers(self, targets: list[Target]) -> dict[str, Tensor]:
        return self.loss.normalizers([target["mask"] for target in targets])

    def forward(self, batch: Batch, normalizers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        logits = self.network(self.normalize(batch.images))
        masks = torch.stack([target["mask"] for target in batch.targets])
        return self.loss(logits, masks, normalizers)

    def predict(self, batch: Batch) -> Tensor:
        """Probabilities (B, K, H, W), float32; they add up to 1 where a pixel has one class."""
        logits = self.network(self.normalize(batch.images))
        return self.labels.probabilities(upsample(logits.float(), batch.images.shape[-2:]))

    def stitch(self, size: tuple[int, int], predictions: Iterable[tuple[View, Tensor]]) -> Iterator[LabelRows]:
        for top, probabilities in blend(size, predictions):
            yield LabelRows(top, self.labels.decide(probabilities).cpu().numpy())

    def graph(self, settings: GraphSettings, dtype: str) -> Exportable:
        """The model as a graph for exporters, for files of this pixel type."""
        return segmentation_graph(self, settings, dtype)

    def example_batch(self, size: int, image_size: tuple[int, int], limits: DataLimits) -> Batch:
        """Random pixels of every class: the memory of segmentation depends on nothing else."""
        generator = torch.Generator().manual_seed(0)
        images = self.random_images(size, image_size, generator, limits.dtype)
        masks = torch.randint(self.labels.mask_values, (size, *image_size), dtype=torch.uint8, generator=generator)
        return Batch(images, [{"mask": mask} for mask in masks])
