"""What a detector does at one confidence: hits, false alarms, misses at IoU 0.5."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hires.evaluation.coco import ImageRecord

IOU = 0.5  # from which a detection shows an object
FALSE_ALARM, HIT, NEITHER = 0, 1, 2
"""What a detection is: a false alarm, a hit, or one on an ignored object, which counts neither way."""


class OperatingPoint(NamedTuple):
    """The confidence with the best F1, and what is reached there; NaN where there is nothing to say."""

    precision: float
    recall: float
    f1: float
    confidence: float


def best_point(scores: np.ndarray, verdicts: np.ndarray, objects: int) -> OperatingPoint:
    """The threshold that maximises F1, the highest of equals, of detections (N,) and the number of objects.

    Without objects there is no F1. Without a hit it is 0 at every threshold, and none is best.
    """
    if not objects:
        return OperatingPoint(*[float("nan")] * 4)
    counted = verdicts != NEITHER
    order = np.argsort(-scores[counted], kind="stable")
    scores, hits = scores[counted][order], np.cumsum(verdicts[counted][order] == HIT)
    if not len(hits) or not hits[-1]:
        return OperatingPoint(0.0 if len(hits) else float("nan"), 0.0, 0.0, float("nan"))
    ends = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)  # equal scores go together
    f1 = 2 * hits[ends] / (ends + 1 + objects)
    end = ends[f1.argmax()]
    precision, recall = hits[end] / (end + 1), hits[end] / objects
    return OperatingPoint(float(precision), float(recall), float(f1.max()), float(scores[end]))


def verdicts(record: ImageRecord) -> np.ndarray:
    """What each detection (N,) of an image is, matched within its class as COCO does.

    By falling score each takes the free object that it overlaps most, or else an ignored one, which may be taken
    again and counts as overlapped by the share of the detection inside.
    """
    result = np.zeros(len(record.scores), np.uint8)
    for label in np.unique(record.found_labels):
        mine, theirs = record.found_labels == label, record.labels == label
        order = np.argsort(-record.scores[mine], kind="stable")
        ignored = record.ignored[theirs]
        overlaps = overlaps_of(record.found[mine][order], record.boxes[theirs], ignored)
        result[np.flatnonzero(mine)[order]] = _matched(overlaps, ignored)
    return result


def _matched(overlaps: np.ndarray, ignored: np.ndarray) -> np.ndarray:
    """Verdicts (N,) from overlaps (N, M) in falling order of score."""
    result = np.zeros(len(overlaps), np.uint8)
    enough = np.where(overlaps >= IOU, overlaps, 0)
    for index in np.flatnonzero(enough.any(1)):
        free = np.where(ignored, 0, enough[index])
        if free.any():
            taken = len(free) - 1 - free[::-1].argmax()  # the last of equals, as in COCO
            result[index], enough[index + 1 :, taken] = HIT, 0
        elif enough[index].any():
            result[index] = NEITHER
    return result


def overlaps_of(found: np.ndarray, boxes: np.ndarray, ignored: np.ndarray) -> np.ndarray:
    """Intersection over union (N, M) in float64; with ignored boxes over the area of what was found."""
    found, boxes = found.astype(np.float64), boxes.astype(np.float64)
    sides = np.minimum(found[:, None, 2:], boxes[:, 2:]) - np.maximum(found[:, None, :2], boxes[:, :2])
    common = sides.clip(min=0).prod(2)
    own, other = (np.prod(part[:, 2:] - part[:, :2], axis=1) for part in (found, boxes))
    whole = np.where(ignored, own[:, None], own[:, None] + other - common)
    return np.divide(common, whole, out=np.zeros_like(common), where=whole > 0)


def false_alarms(
    records: Sequence[ImageRecord], judged: Sequence[np.ndarray], confidence: float
) -> tuple[int, float]:
    """How many images have no object that counts, and their mean number of false alarms; NaN without any.

    Counts detections of at least the confidence, or all of them where it is NaN.
    """
    least = -np.inf if np.isnan(confidence) else confidence
    counts = [
        np.count_nonzero((part == FALSE_ALARM) & (record.scores >= least))
        for record, part in zip(records, judged, strict=True)
        if record.ignored.all()
    ]
    return len(counts), float(np.mean(counts)) if counts else float("nan")
