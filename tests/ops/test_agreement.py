"""How far outputs are from each other."""

import math

import pytest
import torch

from hires.ops.agreement import NONE, Agreement, bits, classes, detections, numbers

BOXES = torch.tensor([[0.0, 0, 10, 10], [5, 5, 20, 20], [0, 0, 200, 100]])
SCORES = torch.tensor([0.9, 0.8, 0.3])
LABELS = torch.tensor([0, 0, 1])


def test_numbers():
    ours = torch.tensor([0.5, -200.0, 3.0])
    assert numbers(ours, ours + torch.tensor([0.1, 0.0, 0.0])).difference == pytest.approx(0.1, rel=1e-3)
    assert numbers(ours, ours + torch.tensor([0.0, 0.2, 0.0])).difference == pytest.approx(1e-3, rel=1e-3)
    assert numbers(ours, ours[:2]).difference == math.inf
    assert not numbers(ours, torch.tensor([0.5, math.nan, 3.0])).difference <= 1
    assert numbers(ours[:0], ours[:0]) == NONE


def test_sums_keep_the_largest_and_what_is_no_number():
    total = Agreement(0.1, 3, 1) + Agreement(0.2, 4)
    assert total == (0.2, 7, 1)
    assert not (total + Agreement(math.nan, 1)).difference <= 1
    assert not (Agreement(math.nan, 1) + total).difference <= 1


def test_another_class_counts_by_its_probability():
    probabilities = torch.tensor([[[[0.5, 0.2]], [[0.4, 0.8]]]])
    ours = torch.tensor([[[0, 1]]], dtype=torch.uint8)
    assert classes(probabilities, ours, ours).difference == 0
    others = torch.ones_like(ours)
    assert classes(probabilities, ours, others).difference == pytest.approx(0.1, rel=1e-3)
    assert classes(probabilities, ours, torch.zeros_like(ours)).difference == pytest.approx(0.6, rel=1e-3)


def test_another_bit_counts_by_its_margin():
    probabilities = torch.tensor([[[[0.5, 0.2]], [[0.4, 0.8]]]])
    ours = torch.tensor([[[1, 2]]], dtype=torch.uint8)
    assert bits(probabilities, ours, ours).difference == 0
    one_more, one_less = (torch.tensor([[pair]], dtype=torch.uint8) for pair in ([3, 2], [1, 0]))
    assert bits(probabilities, ours, one_more).difference == pytest.approx(0.1, rel=1e-3)
    assert bits(probabilities, ours, one_less).difference == pytest.approx(0.3, rel=1e-3)


def test_detections_in_another_order_are_the_same():
    order = torch.tensor([2, 0, 1])
    theirs = BOXES[order], SCORES[order] + 1e-5, LABELS[order]
    found = detections((BOXES, SCORES, LABELS), theirs, 1e-3)
    assert found.difference == pytest.approx(1e-5, rel=0.02)
    assert (found.compared, found.unmatched) == (3, 0)


@pytest.mark.parametrize(
    "theirs",
    [
        (BOXES, SCORES, torch.tensor([0, 1, 1])),
        (BOXES, SCORES + torch.tensor([0, 0.1, 0]), LABELS),
        (BOXES + torch.tensor([[0.0], [1.0], [0.0]]), SCORES, LABELS),
    ],
)
def test_another_label_score_or_box_has_no_counterpart(theirs):
    assert detections((BOXES, SCORES, LABELS), theirs, 1e-3).unmatched == 2
    assert detections((BOXES[:0], SCORES[:0], LABELS[:0]), theirs, 1e-3).unmatched == 3
    assert detections(theirs, (BOXES[:2], SCORES[:2], LABELS[:2]), 1e-3).unmatched == 3


def test_masks_count_too():
    masks = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(0)) / 2
    theirs = BOXES, SCORES, LABELS, masks + torch.tensor([0, 0, 0.25])[:, None, None]
    found = detections((BOXES, SCORES, LABELS, masks), theirs, 1e-3)
    assert found.difference == pytest.approx(0.25, rel=1e-3)
