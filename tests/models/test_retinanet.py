"""RetinaNet against torchvision's, its anchors and its heads."""

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator

from hires.models.backbone import BackboneSettings
from hires.models.detection.anchors import AnchorSettings
from hires.models.detection.neck import NeckSettings
from hires.models.detection.retinanet import RetinaNetSettings
from hires.models.trial import Trial
from hires.ops.dense import Choice
from hires.settings import SettingError

SIDE = 128  # of the image: a multiple of the coarsest stride, where torchvision's anchors lie evenly
NECK = NeckSettings(levels=(3, 4, 5), extra_levels=2, channels=32)


class Features(nn.Module):
    """The maps of a network's neck, as torchvision wants them."""

    out_channels = 32

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return OrderedDict((str(i), level) for i, level in enumerate(self.network.features(x)))


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
    model = RetinaNet(
        Features(network),
        3,
        min_size=SIDE,
        max_size=SIDE,
        image_mean=[0.0] * 3,
        image_std=[1.0] * 3,
        anchor_generator=AnchorGenerator(sizes, (settings.aspects,) * len(sizes)),
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
    stages = network.stages()
    assert stages["head"] == ("head.classification_head", "head.regression_head")
    named = [tuple(network.get_submodule(name).parameters()) for names in stages.values() for name in names]
    assert sum(p.numel() for ps in named for p in ps) == sum(p.numel() for p in network.parameters())


def test_boxes_and_anchors_stay_float32_under_autocast(network):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        outputs = network(torch.randn(1, 3, SIDE, SIDE))
        (found,) = network.detect(outputs, (SIDE, SIDE), Choice())
    assert outputs.logits.dtype == torch.bfloat16
    assert {t.dtype for t in (*outputs.anchors, found.boxes, found.scores)} == {torch.float32}
