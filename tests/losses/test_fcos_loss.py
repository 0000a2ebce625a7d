"""The losses of FCOS against torchvision's, and their independence of the micro-batch."""

import pytest
import torch
from torchvision.models.detection import FCOS
from torchvision.models.detection.fcos import FCOSHead

from hires.losses.dense import FcosLossSettings
from hires.ops.dense import DenseOutputs
from hires.ops.matching import IGNORED, match_points
from tests.detectors import SIDE, target

STRIDES = (8, 16, 32)


def levels(size=(SIDE, SIDE)):
    grids = []
    for stride in STRIDES:
        y, x = (torch.arange(0, side, stride) for side in size)
        y, x = torch.meshgrid(y, x, indexing="ij")
        points = torch.stack([x, y, x, y], -1).view(-1, 4).float()
        grids.append(points + torch.tensor([-1, -1, 1, 1]) * stride / 2)
    return grids


def outputs(rng, images):
    anchors = levels()
    total = sum(map(len, anchors))
    return DenseOutputs(
        logits=torch.randn(images, total, 3, generator=rng),
        deltas=torch.rand(images, total, 4, generator=rng) * 4,
        anchors=anchors,
        centerness=torch.randn(images, total, generator=rng),
    )


def loss_of(outputs, targets, normalizers=None):
    loss = FcosLossSettings().build()
    return loss(outputs, targets, normalizers or loss.normalizers(targets, levels))


def test_equals_torchvision():
    rng = torch.Generator().manual_seed(0)
    targets = [target(rng, 7), target(rng, 0), target(rng, 3)]
    said = outputs(rng, 3)
    model = FCOS.__new__(FCOS)
    torch.nn.Module.__init__(model)
    model.center_sampling_radius, model.head = 1.5, FCOSHead(32, 1, 3)
    theirs = model.compute_loss(
        targets,
        {
            "cls_logits": said.logits,
            "bbox_regression": said.deltas,
            "bbox_ctrness": said.centerness[..., None],
        },
        [torch.cat(said.anchors)] * 3,
        [len(level) for level in said.anchors],
    )
    ours = loss_of(said, targets)
    for name, reference in {
        "classification": "classification",
        "box": "bbox_regression",
        "centerness": "bbox_ctrness",
    }.items():
        torch.testing.assert_close(ours[name], theirs[reference], rtol=1e-5, atol=1e-6)


def test_parts_add_up_to_the_batch():
    rng = torch.Generator().manual_seed(1)
    targets = [target(rng, count) for count in (9, 1, 0, 4)]
    said = outputs(rng, 4)
    loss = FcosLossSettings().build()
    whole = loss.normalizers(targets, levels)
    parts = [loss.normalizers(targets[:1], levels), loss.normalizers(targets[1:], levels)]
    assert sum(part["matched"] for part in parts) == whole["matched"]
    total = sum(loss_of(said, targets).values())
    halves = sum(
        sum(
            loss(
                said._replace(logits=said.logits[s], deltas=said.deltas[s], centerness=said.centerness[s]),
                targets[s],
                whole,
            ).values()
        )
        for s in (slice(0, 1), slice(1, 4))
    )
    torch.testing.assert_close(halves, total)


def test_no_object_at_all():
    rng = torch.Generator().manual_seed(2)
    losses = loss_of(outputs(rng, 2), [target(rng, 0), target(rng, 0)])
    assert losses["box"] == 0
    assert losses["centerness"] == 0
    assert torch.isfinite(losses["classification"])


def test_points_in_ignored_boxes_do_not_count():
    rng = torch.Generator().manual_seed(3)
    said, truth = outputs(rng, 1), target(rng, 2, ignored=True)
    matched = match_points(said.anchors, truth["boxes"], truth["ignored"], 1.5)
    inside = matched == IGNORED
    assert 0 < inside.sum() < len(inside)
    before = loss_of(said, [truth])
    said.logits[0, inside] += 5
    assert torch.equal(loss_of(said, [truth])["classification"], before["classification"])
    said.logits[0, ~inside] += 5
    assert loss_of(said, [truth])["classification"] > before["classification"]


@pytest.mark.parametrize("count", [31, 32, 33, 100])
def test_matching_in_pieces_finds_the_smallest_box(count):
    rng = torch.Generator().manual_seed(count)
    truth = target(rng, count)
    matched = match_points(levels(), truth["boxes"], truth["ignored"], 100.0)
    boxes = truth["boxes"]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    points = torch.cat([(level[:, :2] + level[:, 2:]) / 2 for level in levels()])
    first = len(levels()[0])
    for point, index in zip(points[:first], matched[:first], strict=True):
        sides = torch.cat([point - boxes[:, :2], boxes[:, 2:] - point], 1)
        fits = (sides.amin(1) > 0) & (sides.amax(1) < 64)
        assert index == (torch.where(fits, areas, torch.inf).argmin() if fits.any() else -1)
