"""U-Net: shapes, norms, stages, and gradients everywhere."""

import pytest
import torch
from torch import nn

from hires.models.backbone import BackboneSettings
from hires.models.norm import convert, group_count
from hires.models.segmentation.unet import UnetSettings


def make(name="test_resnet", channels=3, pretrained=False, **settings):
    torch.manual_seed(0)
    backbone = BackboneSettings(name=name, pretrained=False, in_channels=channels).build()
    settings = {"decoder_channels": (32, 16, 16, 8, 8), **settings}
    return UnetSettings(**settings).build(backbone, 5, pretrained=pretrained)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("name", "channels"), [("test_resnet", 3), ("convnext_atto", 1), ("test_efficientnet", 4), ("regnety_002", 3)]
)
def test_logits_have_the_size_of_the_image_and_everything_trains(name, channels, full):
    network = make(name, channels, full_resolution_skip=full)
    logits = network(torch.rand(2, channels, 64, 96))
    assert logits.shape == (2, 5, 64, 96)
    logits.square().mean().backward()
    stages = network.stages()
    named = [n for names in stages.values() for n in names]
    for prefix in named:
        parameters = list(network.get_submodule(prefix).parameters())
        assert all(p.grad is not None for p in parameters), prefix
    assert list(stages)[-2:] == ["decoder", "head"]


@pytest.mark.parametrize("name", ["test_resnet", "convnext_atto", "test_efficientnet", "regnety_002"])
def test_group_norm_replaces_every_batch_norm(name):
    network = make(name, norm="group", full_resolution_skip=True).eval()
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in network.modules())
    x = torch.rand(3, 3, 64, 64)
    torch.testing.assert_close(network(x)[:1], network(x[:1]), rtol=1e-4, atol=1e-5)


def test_frozen_norm_keeps_pretrained_statistics_only():
    network = make(norm="frozen", pretrained=True)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in network.modules())
    assert any("running_mean" in name for name in network.backbone.state_dict())
    assert not any("running_mean" in name for name in network.decoder.state_dict())


def test_frozen_stages_stay_frozen_when_their_norms_are_exchanged():
    torch.manual_seed(0)
    backbone = BackboneSettings(name="test_resnet", pretrained=False, freeze=("stem", "stage1")).build()
    network = UnetSettings(norm="group", decoder_channels=(32, 16, 16, 8, 8)).build(backbone, 2).train()
    network(torch.rand(2, 3, 64, 64)).sum().backward()
    frozen = [n for stage in ("stem", "stage1") for n in network.stages()[stage]]
    modules = [network.get_submodule(name) for name in frozen]
    assert all(not p.requires_grad for m in modules for p in m.parameters())
    assert all(not m.training for m in modules)
    assert network.head[0].weight.grad is not None


def test_activation_of_a_fused_norm_survives():
    from timm.layers import BatchNormAct2d

    norm = BatchNormAct2d(8, act_layer=nn.Hardswish)
    norm.weight.data.uniform_(0.5, 1.5)
    new = convert(norm, "group")
    assert isinstance(new.act, nn.Hardswish)
    assert torch.equal(new.weight, norm.weight)


@pytest.mark.parametrize(("channels", "groups"), [(16, 4), (64, 16), (512, 32), (24, 6), (3, 1), (7, 1), (40, 10)])
def test_group_count(channels, groups):
    assert group_count(channels) == groups
