"""Detections are chosen, joined and turned with everything that belongs to them."""

import pytest
import torch
from torchvision.ops import box_iou

from hires.ops.boxes import Detections, areas, chosen, intersections, joined, nothing, strongest, turned


def found(count, extent=(20, 30), seed=0):
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(count, 2, 2, generator=generator).sort(1).values * torch.tensor([extent[1], extent[0]])
    boxes, scores = corners.reshape(count, 4), torch.rand(count, generator=generator)
    return Detections(
        boxes, scores, torch.arange(count), extent, torch.rand(count, 3, 3, generator=generator), boxes - 1
    )


def same(a, b):
    for one, other in zip(a, b, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("flip", [(), (1,), (2,), (1, 2)])
def test_turned_twice_is_unchanged(flip):
    same(turned(turned(found(4), flip), flip), found(4))


def test_turned_follows_the_flipped_tensor():
    """A box around the only bright pixels, and a mask like them, are found again after the flip."""
    image = torch.zeros(1, 20, 30)
    image[:, 3:8, 10:12] = 1
    mask = torch.tensor([[[1.0, 0.0], [0.5, 0.2]]])
    box = torch.tensor([[10.0, 3, 12, 8]])
    detection = Detections(box, torch.ones(1), torch.zeros(1).long(), (20, 30), mask, box)
    for flip in [(1,), (2,), (1, 2)]:
        result = turned(detection, flip)
        x1, y1, x2, y2 = result.boxes[0].int().tolist()
        assert image.flip(flip)[:, y1:y2, x1:x2].sum() == 10
        assert result.frames.tolist() == result.boxes.tolist()
        assert result.masks.tolist() == mask.flip(flip).tolist()


def test_strongest_sorts_and_limits_and_keeps_the_order_of_equals():
    scores = torch.tensor([0.5, 0.9, 0.5, 0.1])
    assert strongest(found(4)._replace(scores=scores), 3).labels.tolist() == [1, 0, 2]


def test_joined_keeps_all_and_passes_over_empty_parts_without_masks():
    whole = found(4)
    parts = [nothing((20, 30)), chosen(whole, torch.arange(2)), chosen(whole, torch.arange(2, 4))]
    same(joined(parts), whole)
    assert joined([nothing((2, 3))]).extent == (2, 3)


def test_intersections_and_areas_equal_torchvision():
    one, other = found(6).boxes, found(5, seed=1).boxes
    common = intersections(one, other)
    union = areas(one)[:, None] + areas(other) - common
    torch.testing.assert_close(common / union, box_iou(one, other))
