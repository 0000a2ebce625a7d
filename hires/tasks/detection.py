"""Object detection as a task: network, loss and merging of the detections of an image's windows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hires.data.settings import DetectionSource
from hires.evaluation.detection import DetectionEvaluator
from hires.interfaces import Batch, ConfigError, DataLimits, Target, View
from hires.ops.boxes import Detections
from hires.ops.choices import DetectionChoices
from hires.ops.dense import Choice
from hires.ops.merge import merge
from hires.ops.shapes import shapes_of
from hires.tasks.graphs import Exportable, GraphSettings, detection_graph
from hires.tasks.network_task import NetworkTask, demand


@dataclass(frozen=True, kw_only=True)
class DetectionSettings(DetectionChoices):
    """How a detector is trained, and how its detections are chosen, merged and scored.

    Everything but `loss` follows the keys of the same names in `evaluation`.
    """

    loss: Any  # the settings of the loss that belongs to the model
    instance_masks: bool = False  # objects have masks, which are learnt and scored

    metric = "AP"
    padding = 0  # a mirrored object would have no box

    @property
    def kind(self) -> str | None:
        """The `task` of the networks that the loss belongs to; None where it does not say."""
        return getattr(self.loss, "task", None)

    def build(self, network: Any, num_classes: int, source: DetectionSource | None = None) -> "DetectionTask":
        """The task of a detector; `source` is the training data, None in evaluation.

        Raises ConfigError where the network learns masks that the data does not read.
        """
        if source is not None:
            demand(
                source,
                "objects",
                "boxes",
                "data=coco, voc, yolo, xyxy, csv, labelme, geojson or instance_masks, or a network for masks such "
                "as model=unet",
            )
        if self.instance_masks and source is not None and not source.instance_masks:
            raise ConfigError(
                "model: it learns masks of objects, which this data does not read; choose data=coco, "
                "labelme, geojson, instance_masks or demo_boxes, with data.instance_masks=true, or "
                "model=faster_rcnn"
            )
        if source is not None and network.anchors.to_fit:
            network.anchors.fit(object_shapes(source))
        return DetectionTask(network=network, loss=self.loss.build(), num_classes=num_classes, settings=self)

    def evaluator(self, classes: tuple[str, ...]) -> DetectionEvaluator:
        return DetectionEvaluator(
            classes,
            max_detections=self.max_detections,
            size_limits=self.size_limits,
            instance_masks=self.instance_masks,
        )

    def choice(self) -> Choice:
        """What is kept of the detections in one view."""
        return Choice(self.score_threshold, self.candidates, self.nms_iou, self.max_detections)


class DetectionTask(NetworkTask):
    """Boxes of objects. Targets: `boxes` (N, 4), `labels` (N,), `ignored` (N,), `size` (2,), see DetectionSource.

    With instance masks also `masks` (N, H, W) uint8, of the pixels of the sample.
    """

    def __init__(self, *, network: Any, loss: Any, num_classes: int, settings: DetectionSettings):
        super().__init__(network=network, loss=loss)
        self.num_classes, self.settings = num_classes, settings

    def normalizers(self, targets: list[Target]) -> dict[str, Tensor]:
        return self.loss.normalizers(targets, self.network.anchors_of)

    def forward(self, batch: Batch, normalizers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        outputs = self.network(self.normalize(batch.images), batch.targets)
        return self.loss(outputs, batch.targets, normalizers)

    def predict(self, batch: Batch) -> list[Detections]:
        """The objects in each image, best first, in its pixels."""
        outputs = self.network(self.normalize(batch.images))
        height, width = batch.images.shape[-2:]
        return self.network.detect(outputs, (height, width), self.settings.choice())

    def stitch(
        self, size: tuple[int, int], predictions: Iterable[tuple[View, Detections]]
    ) -> Iterator[Detections]:
        """One part: all objects of the image."""
        settings = self.settings
        yield merge(
            size,
            predictions,
            how=settings.merge,
            iou=settings.nms_iou,
            max_detections=settings.max_detections,
        )

    def graph(self, settings: GraphSettings, dtype: str) -> Exportable:
        """The model as a graph for exporters, for files of this pixel type."""
        return detection_graph(self, settings, dtype)

    def example_batch(self, size: int, image_size: tuple[int, int], limits: DataLimits) -> Batch:
        """Random pixels, and as many objects as an image may have, from one pixel to the whole image."""
        generator = torch.Generator().manual_seed(0)
        images = self.random_images(size, image_size, generator, limits.dtype)
        return Batch(images, [self._example_target(image_size, limits.max_objects, generator) for _ in images])

    def _example_target(self, image_size: tuple[int, int], objects: int, generator: torch.Generator) -> Target:
        extent = torch.tensor(image_size[::-1]).float()
        sides = extent ** torch.rand(objects, 2, generator=generator)  # as many small as large ones
        corners = torch.rand(objects, 2, generator=generator) * (extent - sides)
        boxes = torch.cat([corners, torch.minimum(corners + sides, extent)], dim=1)
        masks = {"masks": filled(boxes, image_size)} if self.settings.instance_masks else {}
        return {
            "boxes": boxes,
            "labels": torch.randint(self.num_classes, (objects,), generator=generator),
            "ignored": torch.zeros(objects, dtype=torch.bool),
            "size": torch.tensor(image_size),
            **masks,
        }


def object_shapes(source: DetectionSource) -> Tensor:
    """Width and height (N, 2), pixels, of all objects of a source; those that do not count are left out."""
    images = (source.objects(index) for index in range(len(source)))
    return shapes_of(torch.cat([torch.from_numpy(found["boxes"][~found["ignored"]]) for found in images]))


def filled(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Masks (N, H, W) uint8 of all pixels that boxes (N, 4) touch."""
    masks = torch.zeros(len(boxes), *size, dtype=torch.uint8)
    low, high = boxes[:, :2].floor().int().tolist(), boxes[:, 2:].ceil().int().tolist()
    for mask, (x1, y1), (x2, y2) in zip(masks, low, high, strict=True):
        mask[y1:y2, x1:x2] = 1
    return masks
