"""Scores from confusion matrices equal those of torchmetrics, however the rows arrive."""

import math

import numpy as np
import pytest
import torch
from torchmetrics.classification import (
    MulticlassJaccardIndex,
    MultilabelAccuracy,
    MultilabelF1Score,
    MultilabelJaccardIndex,
)
from torchmetrics.functional.segmentation import dice_score

from hires.evaluation.segmentation import LabelRows, MultilabelEvaluator, SegmentationEvaluator
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


def labelled_images(rng, count=3):
    for _ in range(count):
        height, width = rng.integers(20, 60, 2)
        truth, labels = rng.integers(0, 16, (2, height, width)).astype(np.uint8)
        truth[rng.random((height, width)) < 0.2] = IGNORE
        yield truth, labels


def bits(mask):
    """Labels (pixels, 4) of a mask without IGNORE."""
    return torch.from_numpy(mask.astype(int))[:, None] // 2 ** torch.arange(4) % 2


def test_scores_of_several_labels_equal_torchmetrics():
    evaluator = MultilabelEvaluator(CLASSES)
    oracles = [MultilabelJaccardIndex(4, average="none"), MultilabelF1Score(4, average="none")]
    oracles.append(MultilabelAccuracy(4, average="micro"))
    for truth, labels in labelled_images(np.random.default_rng(0)):
        for top in range(0, len(truth), 7):
            evaluator.update(LabelRows(top, labels[top : top + 7]), {"mask": truth})
        valid = truth != IGNORE
        for oracle in oracles:
            oracle.update(bits(labels[valid]), bits(truth[valid]))
    scores = evaluator.compute()
    iou, dice, accuracy = (oracle.compute() for oracle in oracles)
    assert list(scores) == list(SegmentationEvaluator(CLASSES).compute())
    assert [scores[f"IoU/{name}"] for name in CLASSES] == pytest.approx(iou.tolist(), abs=1e-6)
    assert [scores[f"Dice/{name}"] for name in CLASSES] == pytest.approx(dice.tolist(), abs=1e-6)
    assert scores["mIoU"] == pytest.approx(float(iou.mean()), abs=1e-6)
    assert scores["accuracy"] == pytest.approx(float(accuracy), abs=1e-6)


def test_a_label_that_nobody_gives_does_not_count():
    evaluator = MultilabelEvaluator(("everywhere", "somewhere", "nowhere"))
    truth = np.array([[0b001, 0b001, 0b011, IGNORE]], np.uint8)
    evaluator.update(LabelRows(0, np.array([[0b001, 0b011, 0b011, 0b111]], np.uint8)), {"mask": truth})
    scores = evaluator.compute()
    assert math.isnan(scores["IoU/nowhere"])
    assert math.isnan(scores["Dice/nowhere"])
    assert scores["mIoU"] == pytest.approx((1 + 1 / 2) / 2)
    assert scores["accuracy"] == pytest.approx(8 / 9)
    # always the first, never the others
    assert scores["majority_mIoU"] == pytest.approx((1 + 0) / 2)


def test_no_labels_counted_give_no_numbers():
    evaluator = MultilabelEvaluator(CLASSES)
    evaluator.update(LabelRows(0, np.zeros((2, 2), np.uint8)), {"mask": np.full((2, 2), IGNORE, np.uint8)})
    assert all(math.isnan(value) for value in evaluator.compute().values())
    evaluator.update(LabelRows(0, np.ones((2, 2), np.uint8)), {"mask": np.zeros((2, 2), np.uint8)})
    assert evaluator.compute()["accuracy"] == pytest.approx(3 / 4)
    evaluator.reset()
    assert evaluator.confusion.counts.sum() == 0
