"""Scores from one confusion matrix equal those of torchmetrics, however the rows arrive."""

import math

import numpy as np
import pytest
import torch
from torchmetrics.classification import MulticlassJaccardIndex
from torchmetrics.functional.segmentation import dice_score

from hires.evaluation.segmentation import LabelRows, SegmentationEvaluator
from hires.interfaces import IGNORE

CLASSES = ("a", "b", "c", "d")


def images(rng, count=3):
    for _ in range(count):
        height, width = rng.integers(20, 60, 2)
        truth = rng.integers(0, 4, (height, width)).astype(np.uint8)
        truth[rng.random((height, width)) < 0.2] = IGNORE
        yield truth, rng.integers(0, 4, (height, width)).astype(np.uint8)


def test_scores_equal_torchmetrics():
    rng = np.random.default_rng(0)
    evaluator = SegmentationEvaluator(CLASSES)
    oracle = MulticlassJaccardIndex(4, average="none", ignore_index=IGNORE)
    pairs = []
    for truth, labels in images(rng):
        for top in range(0, len(truth), 7):
            evaluator.update(LabelRows(top, labels[top : top + 7]), {"mask": truth})
        oracle.update(torch.from_numpy(labels.astype(int)), torch.from_numpy(truth.astype(int)))
        pairs.append((labels[truth != IGNORE], truth[truth != IGNORE]))
    scores = evaluator.compute()
    iou = oracle.compute()
    assert [scores[f"IoU/{name}"] for name in CLASSES] == pytest.approx(iou.tolist(), abs=1e-6)
    assert scores["mIoU"] == pytest.approx(float(iou.mean()), abs=1e-6)
    labels, truth = (torch.from_numpy(np.concatenate(part).astype(int))[None] for part in zip(*pairs, strict=True))
    dice = dice_score(labels, truth, 4, average="none", input_format="index")[0]
    assert [scores[f"Dice/{name}"] for name in CLASSES] == pytest.approx(dice.tolist(), abs=1e-6)
    assert scores["accuracy"] == pytest.approx(float((labels == truth).float().mean()), abs=1e-6)


def test_class_without_pixels_does_not_count():
    evaluator = SegmentationEvaluator(CLASSES)
    truth = np.array([[0, 0, 1, IGNORE]], np.uint8)
    evaluator.update(LabelRows(0, np.array([[0, 1, 1, 3]], np.uint8)), {"mask": truth})
    scores = evaluator.compute()
    assert math.isnan(scores["IoU/c"])
    assert math.isnan(scores["Dice/d"])
    assert scores["mIoU"] == pytest.approx(0.5)
    assert scores["majority_mIoU"] == pytest.approx((2 / 3 + 0) / 2)


def test_nothing_counted_gives_no_numbers():
    scores = SegmentationEvaluator(CLASSES).compute()
    assert all(math.isnan(value) for value in scores.values())


def test_counts_do_not_overflow():
    evaluator = SegmentationEvaluator(("a", "b"))
    evaluator.confusion.counts[0, 0] = 2**40
    evaluator.update(LabelRows(0, np.zeros((1, 1), np.uint8)), {"mask": np.zeros((1, 1), np.uint8)})
    assert evaluator.confusion.counts[0, 0] == 2**40 + 1


def test_reset_forgets():
    evaluator = SegmentationEvaluator(("a", "b"))
    evaluator.update(LabelRows(0, np.zeros((2, 2), np.uint8)), {"mask": np.ones((2, 2), np.uint8)})
    evaluator.reset()
    assert evaluator.confusion.counts.sum() == 0
