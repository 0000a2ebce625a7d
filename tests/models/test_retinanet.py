"""RetinaNet against torchvision's, its anchors and its heads."""

import pytest
import torch
from torch import nn
from torchvision.models.detection import RetinaNet

from hires.models.backbone import BackboneSettings
from hires.models.detection.anchors import AnchorSettings
from hires.models.detection.neck import NeckSettings
from hires.models.detection.retinanet import RetinaNetSettings
from hires.models.trial import Trial
from hires.ops.dense import Choice
from hires.settings import SettingError
from tests.detectors import SIDE, assert_same, assert_stages_cover, dense_reference, images

NECK = NeckSettings(levels=(3, 4, 5), extra_levels=2, channels=32)


def make(**settings):
    torch.manual_seed(0)
    backbone = BackboneSettings("resnet10t", pretrained=False).build((SIDE, SIDE))
    return RetinaNetSettings(neck=NECK, norm="group", **settings).build(backbone, 3)


@pytest.fixture
def network():
    network = make(head_norm="group")
    # random outputs of all sizes and scores
    nn.init.normal_(network.head.regression_head.bbox_reg.weight, std=0.05)
    nn.init.normal_(network.head.classification_head.cls_logits.weight, std=0.3)
    nn.init.zeros_(network.head.classification_head.cls_logits.bias)
    return network.eval()


def reference(network, choice):
    settings = AnchorSettings()
    sizes = tuple(tuple(4 * stride * s for s in settings.scales) for stride in network.neck.strides)
    return dense_reference(RetinaNet, network, choice, sizes, settings.aspects)


@torch.no_grad()
def test_same_detections_as_torchvision(network):
    choice = Choice(score=0.2, candidates=400, iou=0.6, most=100)
    expected = reference(network, choice)(list(images(2)))
    found = network.detect(network(images(2)), (SIDE, SIDE), choice)
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours.boxes) == choice.most
        assert_same(ours, theirs)


@pytest.mark.parametrize("norm", ["none", "group"])
def test_norms_of_the_heads(norm):
    network = make(head_norm=norm)
    assert any(isinstance(m, nn.GroupNorm) for m in network.head.modules()) == (norm == "group")


def test_anchors_of_every_level():
    network = make(anchors=AnchorSettings(sizes=(8, 16, 32, 64, 200), scales=(1.0, 2.0), aspects=(1.0, 4.0)))
    levels = network(torch.zeros(1, 3, SIDE, SIDE)).anchors
    assert [len(level) for level in levels] == [4 * n * n for n in (16, 8, 4, 2, 1)]
    assert levels[0][:4].tolist() == [[-4, -4, 4, 4], [-8, -8, 8, 8], [-2, -8, 2, 8], [-4, -16, 4, 16]]


def test_as_many_sizes_as_levels():
    with pytest.raises(SettingError, match=r"model\.anchors\.sizes: got \[8\.0\], allowed: null, or 5 numbers"):
        make(anchors=AnchorSettings(sizes=(8,)))


@pytest.mark.parametrize("field", ["scales", "aspects"])
def test_one_anchor_at_least(field):
    with pytest.raises(SettingError, match=f"^{field}"):
        AnchorSettings(**{field: ()})


def test_shapes_can_be_tried(network, caplog):
    with caplog.at_level("INFO"):
        network.check([Trial("image_size", (64, 96), 2, True)])
    assert not caplog.records


def test_stages_cover_every_parameter(network):
    assert network.stages()["head"] == ("head.classification_head", "head.regression_head")
    assert_stages_cover(network)


def test_boxes_and_anchors_stay_float32_under_autocast(network):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        outputs = network(torch.randn(1, 3, SIDE, SIDE))
        (found,) = network.detect(outputs, (SIDE, SIDE), Choice(score=0.05, candidates=400, iou=0.6, most=100))
    assert outputs.logits.dtype == torch.bfloat16
    assert {t.dtype for t in (*outputs.anchors, found.boxes, found.scores)} == {torch.float32}
