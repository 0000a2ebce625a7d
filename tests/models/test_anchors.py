"""Anchors fitted to the boxes of the training data."""

import logging

import pytest
import torch

from hires.models.detection.anchors import AnchorSettings
from hires.ops.shapes import recall, shapes_of

STRIDES = (8, 16, 32)


@pytest.fixture
def anchors():
    return AnchorSettings(fit=True).build(STRIDES)


def thin(count):
    """Boxes four times as high as wide, about 10 pixels wide, and two large squares."""
    width = 10 * (1 + 0.2 * torch.rand(count, generator=torch.Generator().manual_seed(0)))
    return torch.cat([torch.stack([width, 4 * width], 1), torch.tensor([[150.0, 150.0], [160.0, 160.0]])])


def test_boxes_get_anchors(anchors, caplog):
    before = [anchors.cells(level).clone() for level in range(3)]
    with caplog.at_level(logging.INFO):
        anchors.fit(thin(98))
    shapes = shapes_of(anchors.cells(0))
    assert recall(thin(98)[:98], shapes, iou=0.9) == 1
    torch.testing.assert_close(shapes[:, 1] / shapes[:, 0], torch.full((9,), 4.0))
    assert torch.equal(anchors.cells(1), before[1])  # no boxes
    assert torch.equal(anchors.cells(2), before[2])  # too few
    assert "Anchors fitted to 100 boxes: 100.0% of them" in caplog.text


def test_checkpoints_carry_them(anchors):
    anchors.fit(thin(50))
    other = AnchorSettings(fit=True).build(STRIDES)
    other.load_state_dict(anchors.state_dict())
    for ours, theirs in zip(anchors([(2, 2), (1, 1), (1, 1)]), other([(2, 2), (1, 1), (1, 1)]), strict=True):
        assert torch.equal(ours, theirs)


def test_nothing_to_fit_to(anchors, caplog):
    before = anchors.cells(0).clone()
    anchors.fit(torch.zeros(0, 2))
    assert torch.equal(anchors.cells(0), before)
    assert "no boxes" in caplog.text
