"""Scores of detection at native resolution: COCO's, and what a user meets at one confidence."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from hires.evaluation.coco import CocoScores, ImageRecord, coco_scores
from hires.evaluation.detection_notes import DetectionNotes
from hires.evaluation.operating_point import best_point, false_alarms, verdicts
from hires.ops.boxes import Detections, strongest
from hires.ops.paste import pasted
from hires.ops.rle import run_lengths

log = logging.getLogger(__name__)

_SIZES = ("small", "medium", "large")


class DetectionEvaluator:
    """COCO's AP and AR of the `max_detections` surest of an image; precision, recall, F1 at the best confidence.

    `AP_small`, `AP_medium`, `AP_large` are parted by the squares of `size_limits`, sides in pixels. Precision and
    recall are those of the confidence with the best F1 at IoU 0.5: of all classes together, and of each class.
    AP hides what is found on images without objects: `false_positives_per_empty_image` counts it at that
    confidence (all of it, where none is best). With instance masks also `mask_AP` and the like. A class without
    objects has no score (NaN) and does not count in the means, but what is found of it counts as wrong.

    Only packed arrays and run lengths are kept of an image.
    """

    no_goals = ("confidence", "empty_images", "false_positives_per_empty_image")

    def __init__(
        self,
        classes: tuple[str, ...],
        *,
        max_detections: int = 300,
        size_limits: tuple[float, float] = (32.0, 96.0),
        instance_masks: bool = False,
    ):
        self.classes = classes
        self.max_detections = max_detections
        self.size_limits = size_limits
        self.instance_masks = instance_masks
        self.reset()

    def reset(self) -> None:
        self.records: list[ImageRecord] = []
        # (101 recalls, classes) at IoU 0.5, once computed; -1 without truth
        self.precision: np.ndarray | None = None
        self.confidence = float("nan")  # the best, once computed
        self.verdicts: list[np.ndarray] = []  # on the detections of each record, once computed

    def update(self, part: Detections, target: Mapping[str, np.ndarray]) -> None:
        found, target = strongest(part, self.max_detections), self._of_every_class(target)
        height, width = (int(side) for side in target["size"])
        truth_rles: list[bytes] = []
        found_rles: list[bytes] = []
        if self.instance_masks:
            truth_rles = [run_lengths(mask, (height, width)) for mask in target["masks"]]
            found_rles = [run_lengths(mask, (height, width)) for mask in pasted(found)]
        self.records.append(
            ImageRecord(
                (height, width),
                target["boxes"].astype(np.float32),
                target["labels"].astype(np.int32),
                target["ignored"].astype(bool),
                target["areas"].astype(np.float32),
                found.boxes.cpu().numpy(),
                found.scores.cpu().numpy(),
                found.labels.int().cpu().numpy(),
                truth_rles,
                found_rles,
            )
        )

    def _of_every_class(self, target: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The target with each ignored object of no class (-1) in every class."""
        count, other = len(self.classes), np.flatnonzero(target["labels"] < 0)
        if not len(other):
            return target
        index = np.concatenate([np.flatnonzero(target["labels"] >= 0), np.repeat(other, count)])
        repeated = {name: target[name][index] for name in target if name != "size"}
        repeated["labels"][-len(other) * count :] = np.tile(np.arange(count), len(other))
        return {**repeated, "size": target["size"]}

    def counted(self) -> list[ImageRecord]:
        return self.records

    def merge(self, others: Sequence[list[ImageRecord]]) -> None:
        """The images come into their order again: it decides among detections of equal scores."""
        rounds = zip_longest(self.records, *others)
        self.records = [record for each in rounds for record in each if record is not None]

    def notes(self) -> DetectionNotes:
        """Notes on the images that are counted from now on."""
        return DetectionNotes(self)

    def compute(self) -> dict[str, float]:
        self._warn_of_crowded_images()
        boxes = self._coco(masks=False)
        self.precision = boxes.precision[0, :, :, 0]
        sizes = {f"AP_{name}": boxes.ap(area=area) for area, name in enumerate(_SIZES, 1)}
        scores = self._precisions(boxes, "") | sizes | {"AR": boxes.ar()} | self._points()
        return scores | (self._precisions(self._coco(masks=True), "mask_") if self.instance_masks else {})

    def _coco(self, masks: bool) -> CocoScores:
        return coco_scores(
            self.records,
            len(self.classes),
            masks=masks,
            max_detections=self.max_detections,
            size_limits=self.size_limits,
        )

    def _precisions(self, scores: CocoScores, kind: str) -> dict[str, float]:
        result = {f"{kind}AP": scores.ap(), f"{kind}AP50": scores.ap(0.5), f"{kind}AP75": scores.ap(0.75)}
        for label, name in enumerate(self.classes):
            result[f"{kind}AP/{name}"] = scores.ap(label=label)
            result[f"{kind}AP50/{name}"] = scores.ap(0.5, label=label)
        return result

    def _points(self) -> dict[str, float]:
        """What is reached at the best confidence."""
        self.verdicts = [verdicts(record) for record in self.records]
        scores, labels = _all(r.scores for r in self.records), _all(r.found_labels for r in self.records)
        verdict, truth = _all(self.verdicts), _all(r.labels[~r.ignored] for r in self.records)
        overall = best_point(scores, verdict, len(truth))
        empty, alarms = false_alarms(self.records, self.verdicts, overall.confidence)
        self.confidence = overall.confidence
        result = {
            "precision": overall.precision,
            "recall": overall.recall,
            "F1": overall.f1,
            "confidence": overall.confidence,
            "empty_images": float(empty) if self.records else float("nan"),
            "false_positives_per_empty_image": alarms,
        }
        for label, name in enumerate(self.classes):
            mine = labels == label
            point = best_point(scores[mine], verdict[mine], int(np.count_nonzero(truth == label)))
            result |= {f"precision/{name}": point.precision, f"recall/{name}": point.recall}
        return result

    def _warn_of_crowded_images(self) -> None:
        objects = [np.count_nonzero(~record.ignored) for record in self.records]
        crowded = [count for count in objects if count > self.max_detections]
        if crowded:
            log.warning(
                "%d images hold more objects (up to %d) than the %d detections kept of each: raise"
                " evaluation.max_detections to at least %d, or the others count as missed",
                len(crowded),
                max(crowded),
                self.max_detections,
                max(crowded),
            )


def _all(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int32), *parts])
