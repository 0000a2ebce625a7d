"""Average precision and recall as COCO defines them, from truth and detections in memory."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from faster_coco_eval import COCO, COCOeval_faster


class ImageRecord(NamedTuple):
    """What is kept of an image: its objects, and what was found. Boxes are x1 y1 x2 y2, pixels, float32."""

    size: tuple[int, int]  # (height, width), pixels
    boxes: np.ndarray  # (M, 4)
    labels: np.ndarray  # (M,) class indices
    ignored: np.ndarray  # (M,) bool: crowds, which count neither way
    areas: np.ndarray  # (M,) pixels
    found: np.ndarray  # (N, 4), by falling score
    scores: np.ndarray  # (N,)
    found_labels: np.ndarray  # (N,) class indices
    rles: Sequence[bytes] = ()  # of the M objects' masks
    found_rles: Sequence[bytes] = ()  # of the N detections' masks


class CocoScores(NamedTuple):
    """Precision and recall, -1 where there is no truth. Areas are all, small, medium and large objects."""

    precision: np.ndarray  # (10 IoU thresholds 0.5 to 0.95, 101 recalls 0 to 1, classes, 4 areas)
    recall: np.ndarray  # (10 IoU thresholds, classes, 4 areas)

    def ap(self, iou: float | None = None, area: int = 0, label: int | None = None) -> float:
        """Mean precision at one IoU or all, of one class or all; NaN without truth."""
        values = self.precision if iou is None else self.precision[[round((iou - 0.5) / 0.05)]]
        return _mean(values[:, :, slice(None) if label is None else label, area])

    def ar(self) -> float:
        """Mean of the recall over IoU thresholds and classes; NaN without truth."""
        return _mean(self.recall[:, :, 0])


def coco_scores(
    records: Sequence[ImageRecord],
    num_classes: int,
    *,
    masks: bool,
    max_detections: int,
    size_limits: tuple[float, float],
) -> CocoScores:
    """Scores of boxes, or of masks. `size_limits`: sides, pixels, whose squares part small, medium and large."""
    if not any(len(record.labels) for record in records):
        return CocoScores(np.full((10, 101, num_classes, 4), -1.0), np.full((10, num_classes, 4), -1.0))
    truth, found = (_dataset(part, records, num_classes) for part in (_objects(records), _found(records)))
    evaluation = COCOeval_faster(truth, found, "segm" if masks else "bbox", print_function=_silent)
    small, large = (side * side for side in size_limits)
    evaluation.params.areaRng = [[0, math.inf], [0, small], [small, large], [large, math.inf]]
    evaluation.params.maxDets = [max_detections]
    evaluation.evaluate()
    evaluation.accumulate()
    return CocoScores(evaluation.eval["precision"][..., 0], evaluation.eval["recall"][..., 0])


def _silent(*args: Any) -> None:
    pass


def _mean(values: np.ndarray) -> float:
    numbers = values[values > -1]
    return float(numbers.mean()) if len(numbers) else float("nan")


def _dataset(annotations: Iterator[dict[str, Any]], records: Sequence[ImageRecord], num_classes: int) -> COCO:
    """COCO's tables; its ids count from 1, since 0 also means unmatched."""
    sizes = enumerate((record.size for record in records), 1)
    images = [{"id": number, "height": height, "width": width} for number, (height, width) in sizes]
    categories = [{"id": number, "name": str(number)} for number in range(1, num_classes + 1)]
    numbered = [annotation | {"id": number} for number, annotation in enumerate(annotations, 1)]
    return COCO({"images": images, "categories": categories, "annotations": numbered}, print_function=_silent)


def _objects(records: Sequence[ImageRecord]) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records, 1):
        common = _annotations(number, record, record.boxes, record.labels, record.rles)
        for annotation, area, ignored in zip(common, record.areas, record.ignored, strict=True):
            yield annotation | {"area": float(area), "iscrowd": int(ignored)}


def _found(records: Sequence[ImageRecord]) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records, 1):
        common = _annotations(number, record, record.found, record.found_labels, record.found_rles)
        for annotation, score in zip(common, record.scores, strict=True):
            yield annotation | {"area": annotation["bbox"][2] * annotation["bbox"][3], "score": float(score)}


def _annotations(
    number: int, record: ImageRecord, boxes: np.ndarray, labels: np.ndarray, rles: Sequence[bytes]
) -> Iterator[dict[str, Any]]:
    corners = boxes.astype(np.float64)
    corners[:, 2:] -= corners[:, :2]
    for index, (box, label) in enumerate(zip(corners.tolist(), labels.tolist(), strict=True)):
        annotation = {"image_id": number, "category_id": label + 1, "bbox": box, "iscrowd": 0}
        if rles:
            annotation["segmentation"] = {"size": list(record.size), "counts": rles[index]}
        yield annotation
