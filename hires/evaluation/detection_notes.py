"""Notes on images with objects: F1 of each at the best confidence, and where most is missed or false."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from hires.evaluation.coco import ImageRecord
from hires.evaluation.operating_point import FALSE_ALARM, HIT, IOU, overlaps_of
from hires.interfaces import Window
from hires.ops.looks import SIDE, Evidence, Look, Objects, around, ranked

_LARGEST = 4 * SIDE  # pixels of a window around a large object


class DetectionNotes:
    """Which image each record of a detection evaluator is of; the rest follows from these."""

    def __init__(self, evaluator: Any):
        self.evaluator = evaluator
        self.reset()

    def reset(self) -> None:
        self.indices: list[int] = []

    def update(self, index: int, part: Any, target: Mapping[str, np.ndarray]) -> None:
        self.indices.append(index)

    def counted(self) -> list[int]:
        return self.indices

    def merge(self, others: Sequence[list[int]]) -> None:
        """In the order in which the evaluator puts the records."""
        rounds = zip_longest(self.indices, *others)
        self.indices = [index for each in rounds for index in each if index is not None]

    def evidence(self) -> Evidence:
        evaluator = self.evaluator
        confidence = evaluator.confidence
        looks = [
            look_at(index, record, verdict, confidence)
            for index, record, verdict in zip(self.indices, evaluator.records, evaluator.verdicts, strict=True)
        ]
        scores = sorted(look.score for look in looks)
        curves = None
        if evaluator.precision is not None:
            columns = {name: evaluator.precision[:, label] for label, name in enumerate(evaluator.classes)}
            known = {name: values for name, values in columns.items() if (values >= 0).any()}
            curves = {name: [round(float(v), 4) if v >= 0 else None for v in c] for name, c in known.items()}
        return Evidence(
            tuple(evaluator.classes),
            "F1 of its objects at IoU 0.5",
            scores,
            ranked(looks, scores),
            curves=curves,
            confidence=None if np.isnan(confidence) else float(confidence),
        )


def look_at(index: int, record: ImageRecord, verdict: np.ndarray, confidence: float) -> Look:
    """An image by the detections of at least a confidence, all where it is NaN; without any it scores 1.

    `verdict`: what each detection is.
    """
    shown = record.scores >= (-np.inf if np.isnan(confidence) else confidence)
    counts = ~record.ignored
    hits, alarms = shown & (verdict == HIT), shown & (verdict == FALSE_ALARM)
    met = np.zeros(len(record.boxes), bool)
    if hits.any() and counts.any():
        overlaps = overlaps_of(record.found[hits], record.boxes, record.ignored)
        same = record.found_labels[hits][:, None] == record.labels
        met = ((overlaps >= IOU) & same).any(0)
    total = 2 * np.count_nonzero(hits) + np.count_nonzero(alarms) + np.count_nonzero(counts & ~met)
    score = float(2 * np.count_nonzero(hits) / total) if total else 1.0
    truth = Objects(record.boxes[counts], record.labels[counts], met[counts])
    found = Objects(record.found[shown], record.found_labels[shown], ~alarms[shown])
    return Look(index, score, _window(truth, found, record.size), truth=truth, found=found)


def _window(truth: Objects, found: Objects, size: tuple[int, int]) -> Window:
    """Around the mistake with most others near it, or the object where nothing is wrong."""
    wrong = np.concatenate([truth.boxes[~truth.right], found.boxes[~found.right]])
    boxes = wrong if len(wrong) else np.concatenate([truth.boxes, found.boxes])
    if not len(boxes):
        return around((size[0] / 2, size[1] / 2), SIDE, size)
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    near = np.abs(centres[:, None] - centres).max(2) < SIDE / 2
    middle = int(near.sum(1).argmax())
    x, y = centres[middle]
    largest = float((boxes[middle, 2:] - boxes[middle, :2]).max())
    return around((float(y), float(x)), int(min(max(SIDE, 1.25 * largest), _LARGEST)), size)
