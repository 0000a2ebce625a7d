"""A confusion matrix that accumulates over rows, images and data sets, and the scores that follow from it."""

import numpy as np


class ConfusionMatrix:
    """`counts[truth, prediction]`, int64, of pixels whose truth is a class."""

    def __init__(self, num_classes: int):
        self.counts = np.zeros((num_classes, num_classes), np.int64)

    def update(self, prediction: np.ndarray, truth: np.ndarray) -> None:
        """Counts pixels: two uint8 arrays of one shape; truth beyond the classes is not counted."""
        classes = len(self.counts)
        valid = truth < classes
        pairs = truth[valid].astype(np.int64) * classes + prediction[valid]
        self.counts += np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)

    def iou(self) -> np.ndarray:
        """Intersection over union of each class; NaN for one that is neither in truth nor in prediction."""
        hit, truth, predicted = self._marginals()
        with np.errstate(invalid="ignore"):
            return hit / (truth + predicted - hit)

    def dice(self) -> np.ndarray:
        """Dice of each class (F1 of its pixels); NaN as in `iou`."""
        hit, truth, predicted = self._marginals()
        with np.errstate(invalid="ignore"):
            return 2 * hit / (truth + predicted)

    def accuracy(self) -> float:
        """Share of pixels that are right; NaN without pixels."""
        total = self.counts.sum()
        return float(np.trace(self.counts) / total) if total else float("nan")

    def majority(self) -> "ConfusionMatrix":
        """What predicting the most frequent class everywhere would have counted."""
        trivial = ConfusionMatrix(len(self.counts))
        truth = self.counts.sum(1)
        trivial.counts[:, truth.argmax()] = truth
        return trivial

    def _marginals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.diag(self.counts), self.counts.sum(1), self.counts.sum(0)
