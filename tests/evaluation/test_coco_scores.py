"""Scores of detection equal pycocotools'."""

import contextlib
import io

import numpy as np
import pytest
import torch
from detected import CLASSES, MISSING, SIZE, random_image, score
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from hires.ops.boxes import chosen
from hires.ops.instances import InstanceMask
from hires.ops.paste import pasted


def coco_annotation(image, box, label, mask=None):
    x1, y1, x2, y2 = map(float, box)
    annotation = {"image_id": image, "category_id": int(label) + 1, "bbox": [x1, y1, x2 - x1, y2 - y1]}
    return annotation | ({} if mask is None else {"segmentation": encoded(mask)})


def encoded(instance):
    image = np.zeros(SIZE, np.uint8, order="F")
    height, width = instance.mask.shape
    image[instance.y : instance.y + height, instance.x : instance.x + width] = instance.mask
    return coco_mask.encode(image)


def oracle(pairs, kind, max_detections, limits):
    """pycocotools' precision (T, R, K, A) and recall (T, K, A)."""
    images = [{"id": i, "height": SIZE[0], "width": SIZE[1]} for i, _ in enumerate(pairs, 1)]
    truth, found = [], []
    for image, (part, t) in enumerate(pairs, 1):
        masks = t["masks"] if kind == "segm" else [None] * len(t["boxes"])
        for box, label, ignored, area, mask in zip(
            t["boxes"], t["labels"], t["ignored"], t["areas"], masks, strict=True
        ):
            extra = {"id": len(truth) + 1, "iscrowd": int(ignored), "area": float(area)}
            truth.append(coco_annotation(image, box, label, mask) | extra)
        masks = list(pasted(part)) if kind == "segm" else [None] * len(part.boxes)
        for box, label, value, mask in zip(part.boxes, part.labels, part.scores, masks, strict=True):
            annotation = coco_annotation(image, box, label, mask)
            area = annotation["bbox"][2] * annotation["bbox"][3]
            found.append(annotation | {"id": len(found) + 1, "score": float(value), "area": area, "iscrowd": 0})
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(_coco(images, truth), _coco(images, found), kind)
        small, large = limits[0] ** 2, limits[1] ** 2
        evaluation.params.areaRng = [[0, 1e10], [0, small], [small, large], [large, 1e10]]
        evaluation.params.maxDets = [max_detections]
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.eval["precision"][..., 0], evaluation.eval["recall"][..., 0]


def _coco(images, annotations):
    coco = COCO()
    categories = [{"id": i, "name": str(i)} for i in range(1, len(CLASSES) + 1)]
    coco.dataset = {"images": images, "categories": categories, "annotations": annotations}
    coco.createIndex()
    return coco


def mean(values):
    return values[values > -1].mean() if (values > -1).any() else MISSING


def precisions(precision, prefix=""):
    result = {
        "AP": mean(precision[..., 0]),
        "AP50": mean(precision[0, ..., 0]),
        "AP75": mean(precision[5, ..., 0]),
    }
    for label, name in enumerate(CLASSES):
        result |= {f"AP/{name}": mean(precision[:, :, label, 0]), f"AP50/{name}": mean(precision[0, :, label, 0])}
    return {prefix + key: value for key, value in result.items()}


@pytest.mark.parametrize("seed", range(50))
def test_equals_pycocotools(seed):
    rng = np.random.default_rng(seed)
    pairs = [random_image(rng) for _ in range(rng.integers(1, 6))]
    limits = [(32.0, 96.0), (20.0, 50.0)][seed % 2]
    precision, recall = oracle(pairs, "bbox", 100, limits)
    expected = precisions(precision) | {"AR": mean(recall[..., 0])}
    expected |= {f"AP_{name}": mean(precision[..., i]) for i, name in enumerate(["small", "medium", "large"], 1)}
    scores = score(pairs, max_detections=100, size_limits=limits)
    assert {key: scores[key] for key in expected} == pytest.approx(expected, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("limit", [1, 3, 10])
@pytest.mark.parametrize("seed", range(5))
def test_a_limit_leaves_the_surest_of_an_image(seed, limit):
    """Of all its classes together; what is left is scored as pycocotools does."""
    rng = np.random.default_rng(seed)
    pairs = [random_image(rng, most=20) for _ in range(4)]
    assert any(len(part.boxes) > limit for part, _ in pairs)
    orders = [part.scores.argsort(descending=True, stable=True)[:limit] for part, _ in pairs]
    left = [(chosen(part, order), truth) for (part, truth), order in zip(pairs, orders, strict=True)]
    precision, recall = oracle(left, "bbox", limit, (32.0, 96.0))
    expected = precisions(precision) | {"AR": mean(recall[..., 0])}
    scores = score(pairs, max_detections=limit)
    assert {key: scores[key] for key in expected} == pytest.approx(expected, abs=1e-6, nan_ok=True)


def with_masks(rng, part, truth):
    grids = torch.from_numpy(rng.random((len(part.boxes), 5, 5)).astype(np.float32)) / 2 + 0.45
    boxes = part.boxes.clamp(0, 190)
    part = part._replace(boxes=boxes, frames=part.boxes, masks=grids)
    masks = []
    for x1, y1, x2, y2 in truth["boxes"].astype(int).clip(0, 199):
        mask = np.ones((max(1, y2 - y1), max(1, x2 - x1)), bool)
        mask[: len(mask) // 4] = rng.random() < 0.5
        masks.append(InstanceMask(int(y1), int(x1), mask[: SIZE[0] - y1, : SIZE[1] - x1]))
    return part, truth | {"masks": masks}


@pytest.mark.parametrize("seed", range(5))
def test_mask_scores_equal_pycocotools(seed):
    rng = np.random.default_rng(seed)
    pairs = [with_masks(rng, *random_image(rng)) for _ in range(4)]
    expected = precisions(oracle(pairs, "segm", 100, (32, 96))[0], "mask_")
    scores = score(pairs, max_detections=100, instance_masks=True)
    assert {key: scores[key] for key in expected} == pytest.approx(expected, abs=1e-6, nan_ok=True)
    assert 0 < scores["mask_AP50"] < 1
