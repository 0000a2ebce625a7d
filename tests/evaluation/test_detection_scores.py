"""Scores of detection equal pycocotools'; the operating point equals a search over every threshold."""

import contextlib
import io
import logging
import math

import numpy as np
import pytest
import torch
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from hires.evaluation.detection import DetectionEvaluator
from hires.ops.boxes import Detections, chosen, nothing
from hires.ops.instances import InstanceMask
from hires.ops.paste import pasted

CLASSES = ("a", "b", "c")
SIZE = (200, 240)
MISSING = float("nan")


def random_boxes(rng, count):
    corner = rng.uniform(0, 150, (count, 2))
    return np.concatenate([corner, corner + rng.uniform(4, 130, (count, 2)) ** rng.choice([0.6, 1])], 1)


def random_image(rng, most=8):
    """Truth with crowds, and detections near it and anywhere, with equal scores among them."""
    truth, extra = (random_boxes(rng, rng.integers(0, most)).astype(np.float32) for _ in range(2))
    labels = rng.integers(0, 2, len(truth))
    copies = rng.integers(1, 3)
    near = np.repeat(truth, copies, 0)
    near = near + rng.normal(0, 3, near.shape).astype(np.float32)
    near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
    kept = rng.random(len(near) + len(extra)) < rng.choice([0, 0.7, 1], p=[0.2, 0.4, 0.4])
    boxes = np.concatenate([near, extra])[kept]
    guesses = np.concatenate([np.repeat(labels, copies), rng.integers(0, 3, len(extra))])
    guesses = np.where(rng.random(len(kept)) < 0.8, guesses, 2)[kept]
    found = Detections(
        torch.from_numpy(boxes.astype(np.float32)),
        torch.from_numpy(rng.integers(1, 12, len(boxes)).astype(np.float32) / 12),
        torch.from_numpy(guesses),
        SIZE,
    )
    return found, target(truth, labels, rng.random(len(truth)) < 0.2)


def target(boxes, labels=None, ignored=None, size=SIZE):
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    count = len(boxes)
    return {
        "boxes": boxes,
        "labels": np.zeros(count, np.int64) if labels is None else np.asarray(labels, np.int64),
        "ignored": np.zeros(count, bool) if ignored is None else np.asarray(ignored, bool),
        "areas": (boxes[:, 2:] - boxes[:, :2]).prod(1) * np.float32(0.8),
        "ids": np.arange(count),
        "size": np.array(size),
    }


def detections(boxes, scores, labels=None):
    boxes = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
    labels = torch.zeros(len(boxes)) if labels is None else torch.tensor(labels)
    return Detections(boxes, torch.tensor(scores, dtype=torch.float32), labels.long(), SIZE)


def score(pairs, **options):
    evaluator = DetectionEvaluator(options.pop("classes", CLASSES), **options)
    for part, truth in pairs:
        evaluator.update(part, truth)
    return evaluator.compute()


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


def matched_at(threshold, pairs, label=None):
    """Hits, false alarms and objects with only the detections of at least the threshold, matched by hand."""
    hits = alarms = objects = 0
    for part, truth in pairs:
        for index in range(len(CLASSES)) if label is None else [label]:
            mine, theirs = part.labels.numpy() == index, truth["labels"] == index
            boxes, ignored = truth["boxes"][theirs], truth["ignored"][theirs]
            free = set(np.flatnonzero(~ignored))
            objects += len(free)
            for box, value in sorted(
                zip(part.boxes.numpy()[mine], part.scores.numpy()[mine], strict=True), key=lambda p: -p[1]
            ):
                if value < threshold:
                    continue
                best = max(free, key=lambda i: (overlap(box, boxes[i]), i), default=None)
                if best is not None and overlap(box, boxes[best]) >= 0.5:
                    free.remove(best)
                    hits += 1
                elif not any(overlap(box, boxes[i], crowd=True) >= 0.5 for i in np.flatnonzero(ignored)):
                    alarms += 1
    return hits, alarms, objects


def overlap(box, other, crowd=False):
    box, other = [float(v) for v in box], [float(v) for v in other]
    common = max(0, min(box[2], other[2]) - max(box[0], other[0])) * max(
        0, min(box[3], other[3]) - max(box[1], other[1])
    )
    own, theirs = ((b[2] - b[0]) * (b[3] - b[1]) for b in (box, other))
    return common / (own if crowd else own + theirs - common)


@pytest.mark.parametrize("seed", range(30))
def test_operating_point_equals_brute_force(seed):
    rng = np.random.default_rng(seed)
    pairs = [random_image(rng) for _ in range(4)]
    scores = score(pairs)
    for label, suffix in [(None, ""), (0, "/a"), (1, "/b"), (2, "/c")]:
        best = (-1, MISSING, MISSING, MISSING)
        for threshold in sorted({float(s) for part, _ in pairs for s in part.scores}, reverse=True):
            hits, alarms, objects = matched_at(threshold, pairs, label)
            f1 = 2 * hits / (hits + alarms + objects) if objects else -1
            if f1 > best[0] + 1e-12 and hits:
                best = f1, hits / (hits + alarms), hits / objects, threshold
        if best[0] > 0:
            found = scores[f"precision{suffix}"], scores[f"recall{suffix}"]
            assert found == pytest.approx(best[1:3])
            if label is None:
                assert (scores["F1"], scores["confidence"]) == pytest.approx((best[0], best[3]))
        elif matched_at(0, pairs, label)[2]:
            assert scores[f"recall{suffix}"] == 0
        else:
            assert math.isnan(scores[f"recall{suffix}"])


BOX, ELSEWHERE = [10, 10, 30, 30], [100, 100, 140, 140]


def test_no_truth_is_an_answer():
    scores = score([(detections([BOX], [0.5]), target([])), (nothing(SIZE), target([]))])
    assert all(math.isnan(scores[name]) for name in ("AP", "AP50/a", "AR", "precision", "recall", "F1"))
    assert scores["empty_images"] == 2
    assert scores["false_positives_per_empty_image"] == 0.5


def test_no_detections_are_an_answer():
    scores = score([(nothing(SIZE), target([BOX])), (nothing(SIZE), target([]))])
    assert [scores[name] for name in ("AP", "AP/a", "AP50", "AR", "recall", "F1")] == [0] * 6
    assert math.isnan(scores["AP/b"])
    assert math.isnan(scores["precision"])
    assert scores["false_positives_per_empty_image"] == 0


def test_without_images_every_name_is_known_and_has_no_number():
    full = score([(detections([BOX], [0.5]), target([BOX]))])
    empty = score([])
    assert list(empty) == list(full)
    assert all(math.isnan(value) for value in empty.values())
    assert all(name.count("/") <= 1 for name in empty)
    masks = score([], instance_masks=True)
    assert {"mask_AP", "mask_AP50", "mask_AP75", "mask_AP/a", "mask_AP50/b"} == set(masks) - set(full) - {
        "mask_AP/b",
        "mask_AP/c",
        "mask_AP50/a",
        "mask_AP50/c",
    }


def test_empty_images_show_what_ap_hides():
    """AP of a ranking stays 1 if the false alarms come below the hits; only those above the confidence count."""
    alarms = detections([BOX, ELSEWHERE, [0, 0, 5, 5]], [0.9, 0.8, 0.3], [0, 1, 0])
    crowd = target([[90, 90, 150, 150]], [1], [True])
    scores = score([(detections([BOX, ELSEWHERE], [0.8, 0.7]), target([BOX, ELSEWHERE])), (alarms, crowd)])
    assert scores["confidence"] == pytest.approx(0.7)
    assert scores["empty_images"] == 1
    assert scores["false_positives_per_empty_image"] == 1  # one lies in the crowd, one is not confident


def test_found_class_without_truth_lowers_precision_but_not_ap():
    scores = score([(detections([BOX, ELSEWHERE], [0.5, 0.9], [0, 2]), target([BOX]))])
    assert scores["AP"] == 1
    assert scores["precision"] == 0.5
    assert math.isnan(scores["precision/c"])


def test_dense_images_need_more_detections(caplog):
    corner = np.stack(np.meshgrid(np.arange(20), np.arange(20)), -1).reshape(-1, 2) * 10.0
    boxes = np.concatenate([corner, corner + 8], 1)
    pair = detections(boxes.tolist(), np.linspace(1, 0.1, 400).tolist()), target(boxes)
    with caplog.at_level(logging.WARNING):
        assert score([pair], max_detections=1000)["AP"] == pytest.approx(1)
        assert not caplog.records
        low = score([pair, (nothing(SIZE), target([]))], max_detections=100)
    assert low["AP"] < 0.3
    assert low["recall"] == 0.25
    (record,) = caplog.records
    assert record.getMessage().startswith("1 images hold more objects (up to 400) than the 100")
    assert "evaluation.max_detections" in record.getMessage()


def test_limit_holds_over_all_classes_of_an_image():
    pair = detections([BOX, ELSEWHERE], [0.9, 0.5], [0, 1]), target([BOX, ELSEWHERE], [0, 1])
    scores = score([pair], max_detections=1)
    assert (scores["AP/a"], scores["AP/b"]) == (1, 0)


def test_reset_forgets(capsys):
    evaluator = DetectionEvaluator(CLASSES)
    evaluator.update(detections([ELSEWHERE], [0.9]), target([BOX]))
    assert evaluator.compute()["AP"] == 0
    evaluator.reset()
    evaluator.update(detections([BOX], [0.9]), target([BOX]))
    assert evaluator.compute()["AP"] == 1
    assert capsys.readouterr() == ("", "")


def test_ignored_objects_of_no_class_forgive_every_class():
    evaluator = DetectionEvaluator(CLASSES)
    truth = target([[0, 0, 10, 10], [50, 50, 90, 90]], labels=[0, -1], ignored=[False, True])
    found = detections([[0, 0, 10, 10], [55, 55, 85, 85], [60, 50, 80, 90]], [0.5, 0.9, 0.8], [0, 1, 0])
    evaluator.update(found, truth)
    scores = evaluator.compute()
    assert (scores["AP/a"], scores["precision"], scores["recall"]) == (pytest.approx(1), 1, 1)
    assert math.isnan(scores["AP/b"])
    assert truth["labels"].tolist() == [0, -1]


@pytest.mark.parametrize("processes", [2, 3, 40])
def test_shares_of_the_images_give_the_scores_of_all(processes):
    """Also where more processes count than there are images, and where many detections have the same score."""
    rng = np.random.default_rng(1)
    images = [random_image(rng) for _ in range(31)]
    whole = DetectionEvaluator(CLASSES)
    shares = [DetectionEvaluator(CLASSES) for _ in range(processes)]
    for index, image in enumerate(images):
        whole.update(*image)
        shares[index % processes].update(*image)
    shares[0].merge([share.counted() for share in shares[1:]])
    assert str(shares[0].compute()) == str(whole.compute())  # in which NaN is NaN
