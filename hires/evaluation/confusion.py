"""Confusion matrices that accumulate over rows, images and data sets, and the scores that follow from them."""

from abc import ABC, abstractmethod

import numpy as np

from hires.interfaces import IGNORE
from hires.ops.labels import holds


class Confusion(ABC):
    """int64 counts of pixels, with the truth in rows and the prediction in columns."""

    counts: np.ndarray

    @abstractmethod
    def update(self, prediction: np.ndarray, truth: np.ndarray) -> None:
        """Counts pixels: two uint8 masks of one shape; where the truth is IGNORE, nothing is counted."""

    @abstractmethod
    def accuracy(self) -> float:
        """Share of decisions that are right; NaN without any."""

    @abstractmethod
    def majority(self) -> "Confusion":
        """What giving the most frequent answer everywhere would have counted."""

    @abstractmethod
    def marginals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pixels of each class that are hits, that are of the class, and that were predicted."""

    def iou(self) -> np.ndarray:
        """Intersection over union of each class; NaN for one that is neither in truth nor in prediction."""
        hit, truth, predicted = self.marginals()
        with np.errstate(invalid="ignore"):
            return hit / (truth + predicted - hit)

    def dice(self) -> np.ndarray:
        """Dice of each class (F1 of its pixels); NaN as in `iou`."""
        hit, truth, predicted = self.marginals()
        with np.errstate(invalid="ignore"):
            return 2 * hit / (truth + predicted)


class ConfusionMatrix(Confusion):
    """One class a pixel: `counts[truth, prediction]`, of pixels whose truth is a class."""

    def __init__(self, num_classes: int):
        self.counts = np.zeros((num_classes, num_classes), np.int64)

    def update(self, prediction: np.ndarray, truth: np.ndarray) -> None:
        classes = len(self.counts)
        valid = truth < classes
        pairs = truth[valid].astype(np.int64) * classes + prediction[valid]
        self.counts += np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)

    def accuracy(self) -> float:
        return share(np.trace(self.counts), self.counts.sum())

    def majority(self) -> "ConfusionMatrix":
        """The most frequent class everywhere."""
        trivial = ConfusionMatrix(len(self.counts))
        truth = self.counts.sum(1)
        trivial.counts[:, truth.argmax()] = truth
        return trivial

    def marginals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.diag(self.counts), self.counts.sum(1), self.counts.sum(0)


class MultilabelConfusion(Confusion):
    """Several labels a pixel: `counts[class, truth, prediction]`, of absence (0) and presence (1)."""

    def __init__(self, num_classes: int):
        self.counts = np.zeros((num_classes, 2, 2), np.int64)

    def update(self, prediction: np.ndarray, truth: np.ndarray) -> None:
        valid = truth != IGNORE
        prediction, truth = prediction[valid], truth[valid]
        for index, counts in enumerate(self.counts):
            pairs = 2 * holds(truth, index, True).view(np.uint8) + holds(prediction, index, True).view(np.uint8)
            counts += np.bincount(pairs, minlength=4).reshape(2, 2)

    def accuracy(self) -> float:
        """Share of (pixel, class) decisions that are right; NaN without any."""
        return share(np.trace(self.counts.sum(0)), self.counts.sum())

    def majority(self) -> "MultilabelConfusion":
        """For each class its more frequent answer everywhere: absent, if it covers half of the pixels or less."""
        trivial = MultilabelConfusion(len(self.counts))
        truth = self.counts.sum(2)
        trivial.counts[np.arange(len(truth)), :, truth.argmax(1)] = truth
        return trivial

    def marginals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.counts[:, 1, 1], self.counts[:, 1].sum(1), self.counts[:, :, 1].sum(1)


def share(part: int, whole: int) -> float:
    """A part of a whole; NaN where there is nothing."""
    return float(part / whole) if whole else float("nan")
