"""Twelve kinds of backbones with a segmentation head: every policy trains to the same bits, `full` keeps less."""

from functools import cache

import pytest
import timm
import torch
from blocks import assert_same, train

from hires.memory.checkpointing import apply_policies
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.units import find_units
from hires.models.backbone import Backbone, BackboneSettings
from hires.models.segmentation.fpn import FpnSettings

SIZE = 64
SMALLER = {
    "densenet121": {"block_config": (2, 2, 2, 2), "growth_rate": 8},
    "swin_tiny_patch4_window7_224": {
        "img_size": SIZE,
        "window_size": 4,
        "embed_dim": 16,
        "depths": (2, 1, 2, 1),
        "num_heads": (1, 2, 4, 8),
    },
}
"""Models without a small member, and what makes them small."""
DROP_PATH = {"drop_path_rate": 0.2}
BACKBONES = {
    "test_resnet": DROP_PATH,
    "test_efficientnet": DROP_PATH,
    "test_convnext": DROP_PATH,
    "regnetx_002": DROP_PATH,
    "test_vit": DROP_PATH,
    "swin_tiny_patch4_window7_224": DROP_PATH,
    "mit_b0": DROP_PATH,
    "test_maxvit": DROP_PATH,
    "densenet121": {"drop_rate": 0.2},
    "vgg11": {},
    "test_nfnet": DROP_PATH,
    "dla46x_c": {},
}
POLICIES = {
    "none": "none",
    "selective": "selective",
    "full": "full",
    "full@2": "full@2",
    "full@stage": "full@stage",
    "mixed": {
        "stem": "full",
        "stage1": "selective",
        "stage2.0": "full",
        "stage3": "full@2",
        "decoder": "full@stage",
    },
}


@cache
def network(name):
    """Five classes, dropout in the decoder; in training mode."""
    torch.manual_seed(0)
    drop = BACKBONES[name]
    if name in SMALLER:
        net = timm.create_model(name, features_only=True, feature_cls="getter", **SMALLER[name], **drop)
        backbone = Backbone(net, name, in_channels=3)
    else:
        backbone = BackboneSettings(name, pretrained=False, **drop).build((SIZE, SIZE))
    return FpnSettings(pyramid_channels=32, segmentation_channels=32).build(backbone, 5).train()


def images():
    return (torch.rand(2, 3, SIZE, SIZE),)


@cache
def expected(name):
    return train(network(name), inputs=images)


PARTS = ("selective", "full@2", "full@stage")
"""Which the mixed policy has, too."""


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, id=name, marks=pytest.mark.slow if name in PARTS else [])
        for name, policy in POLICIES.items()
    ],
)
@pytest.mark.parametrize("name", BACKBONES)
def test_same_bits(name, policy):
    assert_same(expected(name), train(network(name), policy, inputs=images))


@pytest.mark.parametrize("name", BACKBONES)
def test_full_keeps_less(name):
    net = network(name)
    units = find_units(net, net.stages())
    assert {"stem", "stage1", "stage2", "stage3", "stage4", "decoder", "head"} <= {unit.stage for unit in units}
    kept = {}
    for policy in ("none", "full"):
        apply_policies(net, units, policy)
        with LivePeak(tensors_of(net)) as meter:
            loss = net(*images()).mean()
            kept[policy] = meter.live - meter.start
            del loss
    apply_policies(net, units, "none")
    assert kept["full"] < 0.6 * kept["none"]
