"""The losses of RetinaNet against torchvision's, and its anchors in ignored boxes."""

import pytest
import torch
from torchvision.models.detection._utils import BoxCoder, Matcher
from torchvision.models.detection.retinanet import RetinaNet, RetinaNetHead

from hires.losses.dense import RetinaNetLossSettings
from hires.ops.dense import DenseOutputs
from hires.ops.matching import IGNORED
from hires.settings import SettingError
from tests.detectors import SIDE, target


def levels(size=(SIDE, SIDE)):
    grids = []
    for stride in (8, 16, 32):
        y, x = torch.meshgrid(*(torch.arange(0, side, stride) for side in size), indexing="ij")
        points = torch.stack([x, y, x, y], -1).view(-1, 1, 4).float()
        cells = torch.tensor([[-1, -1, 1, 1], [-1, -2, 1, 2], [-2, -1, 2, 1]]) * stride
        grids.append((points + cells).view(-1, 4))
    return grids


def outputs(rng):
    total = sum(map(len, levels()))
    logits = torch.randn(1, total, 3, generator=rng)
    return DenseOutputs(logits, torch.randn(1, total, 4, generator=rng) * 0.3, levels())


def reference(said, truth, box_loss):
    model = RetinaNet.__new__(RetinaNet)
    torch.nn.Module.__init__(model)
    model.head = RetinaNetHead(32, 3, 3)
    model.head.regression_head._loss_type = box_loss
    model.head.regression_head.box_coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    model.proposal_matcher = Matcher(0.5, 0.4, allow_low_quality_matches=True)
    said_ = {"cls_logits": said.logits, "bbox_regression": said.deltas}
    return model.compute_loss([truth], said_, [torch.cat(said.anchors)])


@pytest.mark.parametrize("count", [0, 7, 40])
@pytest.mark.parametrize("box_loss", ["l1", "giou"])
def test_equals_torchvision(count, box_loss):
    rng = torch.Generator().manual_seed(count)
    truth, said = target(rng, count), outputs(rng)
    loss = RetinaNetLossSettings(box_loss=box_loss).build()
    normalizers = loss.normalizers([truth], levels)
    assert (normalizers["matched"] > 0) == (count > 0)
    ours, theirs = loss(said, [truth], normalizers), reference(said, truth, box_loss)
    torch.testing.assert_close(ours["classification"], theirs["classification"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours["box"], theirs["bbox_regression"], rtol=1e-5, atol=1e-6)


def test_smooth_l1_is_below_l1():
    rng = torch.Generator().manual_seed(1)
    truth, said = target(rng, 5), outputs(rng)
    both = [RetinaNetLossSettings(box_loss=kind).build() for kind in ("l1", "smooth_l1")]
    l1, smooth = (loss(said, [truth], loss.normalizers([truth], levels))["box"] for loss in both)
    assert 0.5 * l1 < smooth < l1


def test_anchors_in_ignored_boxes_do_not_count():
    rng = torch.Generator().manual_seed(3)
    truth, said = target(rng, 3, ignored=True), outputs(rng)
    loss = RetinaNetLossSettings().build()
    inside = loss.match(said.anchors, truth) == IGNORED
    assert 0 < inside.sum() < len(inside)
    before = loss(said, [truth], loss.normalizers([truth], levels))["classification"]
    said.logits[0, inside] += 5
    assert torch.equal(loss(said, [truth], loss.normalizers([truth], levels))["classification"], before)


def test_thresholds_in_order():
    with pytest.raises(SettingError, match="background_iou: got 0.6, allowed: at most object_iou, 0.5"):
        RetinaNetLossSettings(background_iou=0.6)
