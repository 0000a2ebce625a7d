"""Scores of semantic segmentation, accumulated in bands of rows at native resolution."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hires.evaluation.confusion import Confusion, ConfusionMatrix, MultilabelConfusion
from hires.evaluation.segmentation_notes import SegmentationNotes


class LabelRows(NamedTuple):
    """The predicted mask in full rows of an image."""

    top: int  # the first row
    labels: np.ndarray  # (rows, width) uint8 class indices, or bit fields with several labels a pixel


class SegmentationEvaluator:
    """mIoU, accuracy, and IoU and Dice of each class, from one confusion matrix of all pixels.

    A class that is neither in truth nor in prediction has no score (NaN) and does not count in the mean.
    `majority_mIoU` is what predicting the most frequent class everywhere would score.
    """

    no_goals = ("majority_mIoU",)

    def __init__(self, classes: tuple[str, ...]):
        self.classes = classes
        self.reset()

    def reset(self) -> None:
        self.confusion: Confusion = ConfusionMatrix(len(self.classes))

    def update(self, part: LabelRows, target: Mapping[str, np.ndarray]) -> None:
        self.confusion.update(part.labels, target["mask"][part.top : part.top + len(part.labels)])

    def counted(self) -> np.ndarray:
        return self.confusion.counts

    def merge(self, others: Sequence[np.ndarray]) -> None:
        for counts in others:
            self.confusion.counts += counts

    def notes(self) -> SegmentationNotes:
        """Notes on the images that are counted from now on."""
        return SegmentationNotes(self)

    def compute(self) -> dict[str, float]:
        iou, dice = self.confusion.iou(), self.confusion.dice()
        scores = {
            "mIoU": mean(iou),
            "majority_mIoU": mean(self.confusion.majority().iou()),
            "accuracy": self.confusion.accuracy(),
        }
        scores |= {f"IoU/{name}": float(value) for name, value in zip(self.classes, iou, strict=True)}
        return scores | {f"Dice/{name}": float(value) for name, value in zip(self.classes, dice, strict=True)}


class MultilabelEvaluator(SegmentationEvaluator):
    """The same scores of masks with several labels a pixel, from a confusion matrix of each class.

    `accuracy` is the share of (pixel, class) decisions that are right. `majority_mIoU` is what giving each
    class's more frequent answer, present or absent, everywhere would score: 0 for a class on half of the
    pixels or less, since it would never be predicted.
    """

    def reset(self) -> None:
        self.confusion = MultilabelConfusion(len(self.classes))


def mean(values: np.ndarray) -> float:
    """Mean of the values that are numbers; NaN without any."""
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else float("nan")
