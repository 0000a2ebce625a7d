"""FCOS against torchvision's, and what its network promises."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.models.detection import FCOS

from hires.engine.evaluate import predict
from hires.engine.views import Views
from hires.interfaces import ConfigError
from hires.losses.dense import FcosLossSettings
from hires.models.backbone import BackboneSettings
from hires.models.detection.fcos import FcosSettings
from hires.models.detection.neck import NeckSettings
from hires.ops.dense import Choice
from hires.settings import SettingError
from hires.tasks.detection import DetectionSettings
from tests.detectors import assert_same, assert_stages_cover, dense_reference, images

SIDE = 256  # of the image: a multiple of the coarsest stride, where torchvision's anchors lie evenly
NECK = NeckSettings(levels=(2, 3, 4, 5), extra_levels=2, channels=64)


@pytest.fixture
def network():
    torch.manual_seed(0)
    backbone = BackboneSettings("resnet10t", pretrained=False).build((SIDE, SIDE))
    network = FcosSettings(neck=NECK, norm="group", head_convs=2).build(backbone, 3)
    # random outputs of all sizes and scores
    nn.init.normal_(network.head.regression_head.bbox_reg.weight, std=0.3)
    nn.init.constant_(network.head.regression_head.bbox_reg.bias, 2)
    nn.init.normal_(network.head.classification_head.cls_logits.weight, std=0.3)
    return network.eval()


def reference(network, choice):
    return dense_reference(FCOS, network, choice, tuple((s,) for s in network.neck.strides), side=SIDE)


@torch.no_grad()
def test_same_detections_as_torchvision(network):
    choice = Choice(score=0.2, candidates=400, iou=0.6, most=100)
    both = images(2, SIDE)
    expected = reference(network, choice)(list(both))
    found = network.detect(network(both), (SIDE, SIDE), choice)
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours.boxes) == choice.most
        assert_same(ours, theirs)


@torch.no_grad()
def test_an_image_in_one_window_gives_what_torchvision_gives(network):
    choice = Choice(score=0.2, candidates=400, iou=0.6, most=100)
    settings = DetectionSettings(
        loss=FcosLossSettings(),
        score_threshold=choice.score,
        candidates=choice.candidates,
        nms_iou=choice.iou,
        max_detections=choice.most,
    )
    task = settings.build(network, 3).eval()
    image = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    views = Views("window", (SIDE, SIDE))
    (found,) = predict(task, image, views, place=lambda batch: batch, autocast=nullcontext)
    pixels = torch.from_numpy(image).permute(2, 0, 1)
    (expected,) = reference(network, choice)([task.normalize(pixels)])
    sides = expected["boxes"][:, 2:] - expected["boxes"][:, :2]
    kept = (sides > 0).all(1)  # boxes without area are nothing to merge
    assert len(found.boxes) == kept.sum() > choice.most / 2
    assert_same(found, {key: value[kept] for key, value in expected.items()})


def test_anchors_of_every_position(network):
    outputs = network(torch.zeros(1, 3, 96, 160))
    assert [len(level) for level in outputs.anchors] == [24 * 40, 12 * 20, 6 * 10, 3 * 5, 2 * 3, 1 * 2]
    assert outputs.logits.shape == (1, sum(map(len, outputs.anchors)), 3)
    assert outputs.anchors[3][-1].tolist() == [4 * 32 - 16, 2 * 32 - 16, 4 * 32 + 16, 2 * 32 + 16]


def test_stages_name_modules(network):
    assert list(network.stages()) == ["stem", "stage1", "stage2", "stage3", "stage4", "neck", "head"]
    assert_stages_cover(network)


def test_a_level_that_the_backbone_lacks():
    backbone = BackboneSettings("convnext_atto", pretrained=False).build((64, 64))
    with pytest.raises(
        ConfigError, match=r"model\.neck\.levels: convnext_atto has no level 1, allowed: \[2, 3, 4, 5\]"
    ):
        FcosSettings(neck=NeckSettings(levels=(1, 2, 3), extra_levels=0)).build(backbone, 1)


def test_every_parameter_learns_whichever_levels_the_heads_see():
    backbone = BackboneSettings("resnet10t", pretrained=False).build((64, 64))
    network = FcosSettings(neck=NeckSettings(levels=(2, 3), extra_levels=0, channels=64)).build(backbone, 2)
    outputs = network(torch.randn(2, 3, 64, 64))
    assert [len(level) for level in outputs.anchors] == [16 * 16, 8 * 8]
    (outputs.logits.sum() + outputs.deltas.sum() + outputs.centerness.sum()).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_extra_levels_lie_above_the_top():
    with pytest.raises(SettingError, match="^extra_levels"):
        NeckSettings(levels=(2, 3), extra_levels=1)


def test_levels_in_a_row():
    with pytest.raises(SettingError, match="in a row"):
        NeckSettings(levels=(2, 4))
