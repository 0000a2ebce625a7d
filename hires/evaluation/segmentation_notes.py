"""Notes on segmented images: the score of each, and the window with most wrong pixels as it was predicted."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hires.interfaces import IGNORE, Window
from hires.ops.looks import SIDE, Evidence, Look, ranked

_CELL = 32  # pixels: windows begin at multiples of it
_ACROSS = SIDE // _CELL
_MOST, _ENDS, _MIDDLE = 96, 8, 24  # places that are held, and those that stay when they become too many
_WRONG = 64  # weight of a wrong pixel; one of a border of the truth counts 1, so that there is something to see


class SegmentationNotes:
    """Holds the last rows of one image and some places of others, whatever the size and number of images."""

    def __init__(self, evaluator: Any):
        self.evaluator = evaluator
        self.reset()

    def reset(self) -> None:
        self.looks: list[Look] = []
        self.scores: list[float] = []
        self._before = self.evaluator.confusion.counts.copy()
        self._place: _Place | None = None

    def update(self, index: int, part: Any, target: Mapping[str, np.ndarray]) -> None:
        truth = target["mask"]
        if part.top == 0:
            self._place = _Place(truth)
        assert self._place is not None
        self._place.add(part.labels)
        if part.top + len(part.labels) == len(truth):
            self._finish(index, self._place)
            self._place = None

    def _finish(self, index: int, place: "_Place") -> None:
        counts = self.evaluator.confusion.counts
        own = type(self.evaluator.confusion)(len(self.evaluator.classes))
        own.counts, self._before = counts - self._before, counts.copy()
        iou = own.iou()
        if np.isnan(iou).all():
            return  # nothing of the image counts
        score = float(np.nanmean(iou))
        self.scores.append(score)
        self.looks.append(Look(index, score, place.window, place.labels))
        if len(self.looks) > _MOST:
            self._thin()

    def _thin(self) -> None:
        """Leaves the places of the worst, of the best, and of those in the middle so far."""
        order = sorted(self.looks, key=lambda look: look.score)
        start = (len(order) - _MIDDLE) // 2
        self.looks = order[:_ENDS] + order[start : start + _MIDDLE] + order[-_ENDS:]

    def counted(self) -> Any:
        return self.looks, self.scores

    def merge(self, others: Sequence[Any]) -> None:
        for looks, scores in others:
            self.looks += looks
            self.scores += scores

    def evidence(self) -> Evidence:
        counts = self.evaluator.confusion.counts
        return Evidence(
            tuple(self.evaluator.classes),
            "mean IoU of its classes",
            sorted(self.scores),
            ranked(self.looks, self.scores),
            confusion=counts.tolist() if counts.ndim == 2 else None,
        )


class _Place:
    """The window of an image with most wrong pixels, found while rows of its prediction come from above."""

    def __init__(self, truth: np.ndarray):
        self.truth = truth  # (H, W)
        self.window = Window(0, 0, 0, 0)
        self.labels = np.zeros((0, 0), np.uint8)
        self._rows = np.zeros((0, truth.shape[1]), np.uint8)  # of the prediction, the last ones
        self._top = 0  # of these
        self._done = 0  # rows that have been looked at
        self._cells: deque[np.ndarray] = deque(maxlen=_ACROSS)  # weights of what is wrong, a row of cells each
        self._most = -1

    def add(self, labels: np.ndarray) -> None:
        self._rows = np.concatenate([self._rows, labels])
        height, end = len(self.truth), self._top + len(self._rows)
        while self._done < end and (self._done + _CELL <= end or end == height):
            below = min(self._done + _CELL, height)
            self._look(below)
            self._done = below
        kept = max(0, self._done - SIDE)
        self._rows, self._top = self._rows[kept - self._top :], max(kept, self._top)

    def _look(self, below: int) -> None:
        """At the rows from the last ones that were looked at to `below`, and at windows that end there."""
        truth = self.truth[self._done : below]
        wrong = (self._rows[self._done - self._top : below - self._top] != truth) & (truth != IGNORE)
        weights = _WRONG * np.count_nonzero(wrong, axis=0)
        weights[1:] += np.count_nonzero(truth[:, 1:] != truth[:, :-1], axis=0)
        self._cells.append(np.add.reduceat(weights, np.arange(0, len(weights), _CELL)))
        height, width = self.truth.shape
        if below < min(SIDE, height):
            return
        sums = np.cumsum([0, *np.sum(self._cells, axis=0)])
        across = min(_ACROSS, len(sums) - 1)
        each = sums[across:] - sums[:-across]
        if each.max() > self._most:
            self._most = int(each.max())
            y, x = max(0, below - SIDE), min(_CELL * int(each.argmax()), max(0, width - SIDE))
            self.window = Window(y, x, below - y, min(SIDE, width))
            rows = self._rows[y - self._top : below - self._top]
            self.labels = rows[:, x : x + self.window.width].copy()
