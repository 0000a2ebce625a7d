"""The operating point equals a search over every threshold; scores of what is odd are those that one expects."""

import logging
import math

import numpy as np
import pytest
from detected import CLASSES, MISSING, SIZE, detections, random_image, score, target

from hires.evaluation.detection import DetectionEvaluator
from hires.ops.boxes import nothing


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
