"""FCOS against torchvision's, and what its network promises."""

from collections import OrderedDict
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.models.detection import FCOS
from torchvision.models.detection.anchor_utils import AnchorGenerator

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

SIDE = 256  # of the image: a multiple of the coarsest stride, where torchvision's anchors lie evenly
NECK = NeckSettings(levels=(2, 3, 4, 5), extra_levels=2, channels=64)


class Features(nn.Module):
    """The maps of a network's neck, as torchvision wants them."""

    out_channels = 64

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return OrderedDict((str(i), level) for i, level in enumerate(self.network.features(x)))


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
    strides = network.neck.strides
    model = FCOS(
        Features(network),
        3,
        min_size=SIDE,
        max_size=SIDE,
        image_mean=[0.0] * 3,
        image_std=[1.0] * 3,
        anchor_generator=AnchorGenerator(tuple((s,) for s in strides), ((1.0,),) * len(strides)),
        head=network.head,
        score_thresh=choice.score,
        nms_thresh=choice.iou,
        detections_per_img=choice.most,
        topk_candidates=choice.candidates,
    )
    return model.eval()


@torch.no_grad()
def test_same_detections_as_torchvision(network):
    choice = Choice(score=0.2, candidates=400, iou=0.6, most=100)
    images = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    expected = reference(network, choice)(list(images))
    found = network.detect(network(images), (SIDE, SIDE), choice)
    for ours, theirs in zip(found, expected, strict=True):
        assert len(ours.boxes) == choice.most
        torch.testing.assert_close(ours.boxes, theirs["boxes"], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(ours.scores, theirs["scores"], atol=1e-4, rtol=1e-4)
        assert torch.equal(ours.labels, theirs["labels"])


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
    torch.testing.assert_close(found.boxes, expected["boxes"][kept], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.scores, expected["scores"][kept], atol=1e-4, rtol=1e-4)
    assert torch.equal(found.labels, expected["labels"][kept])


def test_anchors_of_every_position(network):
    images = torch.zeros(1, 3, 96, 160)
    outputs = network(images)
    assert [len(level) for level in outputs.anchors] == [24 * 40, 12 * 20, 6 * 10, 3 * 5, 2 * 3, 1 * 2]
    assert outputs.logits.shape == (1, sum(map(len, outputs.anchors)), 3)
    assert outputs.anchors[3][-1].tolist() == [4 * 32 - 16, 2 * 32 - 16, 4 * 32 + 16, 2 * 32 + 16]


def test_stages_name_modules(network):
    stages = network.stages()
    assert list(stages) == ["stem", "stage1", "stage2", "stage3", "stage4", "neck", "head"]
    for names in stages.values():
        assert all(isinstance(network.get_submodule(name), nn.Module) for name in names)
    named = [tuple(network.get_submodule(name).parameters()) for names in stages.values() for name in names]
    assert sum(p.numel() for ps in named for p in ps) == sum(p.numel() for p in network.parameters())


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
