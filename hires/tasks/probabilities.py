"""A segmentation that gives the probabilities of its classes beside the classes."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from torch import Tensor

from hires.interfaces import Batch, View
from hires.ops.blend import blend
from hires.tasks.segmentation import SegmentationTask


class ProbabilityRows(NamedTuple):
    """Full rows of an image, as LabelRows, with what their classes follow from."""

    top: int  # the first row
    labels: np.ndarray  # (rows, width) uint8 class indices, or bit fields with several labels a pixel
    probabilities: Tensor  # (K, rows, width) float32; they add up to 1 where a pixel has one class


class WithProbabilities:
    """Predicts as a task does; the classes are those that it gives."""

    def __init__(self, task: SegmentationTask):
        self.task = task

    def predict(self, batch: Batch) -> Tensor:
        return self.task.predict(batch)

    def stitch(
        self, size: tuple[int, int], predictions: Iterable[tuple[View, Tensor]]
    ) -> Iterator[ProbabilityRows]:
        for top, probabilities in blend(size, predictions):
            yield ProbabilityRows(top, self.task.labels.decide(probabilities).cpu().numpy(), probabilities)
