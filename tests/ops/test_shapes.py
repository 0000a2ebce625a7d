"""Shapes of boxes and their clusters."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.ops import box_iou

from hires.ops.shapes import centred, clusters, recall, shape_iou, shapes_of

sides = st.floats(1, 500, width=32)
shapes = st.lists(st.tuples(sides, sides), min_size=1, max_size=30).map(torch.tensor)


@given(shapes, shapes)
@settings(deadline=None, max_examples=30)
def test_iou_is_that_of_centred_boxes(ours, others):
    torch.testing.assert_close(
        shape_iou(ours, others), box_iou(centred(ours), centred(others)), atol=1e-5, rtol=1e-4
    )
    torch.testing.assert_close(shapes_of(centred(ours)), ours)


@given(shapes, st.integers(1, 30))
@settings(deadline=None, max_examples=30)
def test_clusters_lie_among_the_shapes(given, number):
    number = min(number, len(given))
    found = clusters(given, number)
    assert found.shape == (number, 2)
    assert (found >= given.amin(0) * 0.999).all()
    assert (found <= given.amax(0) * 1.001).all()
    assert (found.prod(1).diff() >= 0).all()


def test_clusters_find_the_kinds():
    rng = torch.Generator().manual_seed(0)
    kinds = torch.tensor([[8.0, 8.0], [40.0, 10.0], [30.0, 90.0]])
    many = kinds.repeat(50, 1) * (1 + 0.1 * torch.rand(150, 2, generator=rng))
    torch.testing.assert_close(clusters(many, 3), kinds * 1.05, rtol=0.03, atol=0)
    assert torch.equal(clusters(many, 3), clusters(many, 3))


def test_recall_is_the_share_that_fits():
    anchors = torch.tensor([[10.0, 10.0]])
    assert recall(torch.tensor([[10.0, 6.0], [10.0, 4.0], [30.0, 30.0], [12.0, 12.0]]), anchors) == 0.5
