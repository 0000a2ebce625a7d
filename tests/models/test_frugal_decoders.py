"""Decoders that need less memory than the library's give its bits."""

import pytest
import torch
from segmentation_models_pytorch.decoders.fpn.decoder import MergeBlock
from segmentation_models_pytorch.decoders.unet.decoder import UnetDecoderBlock

from hires.memory.meter import LivePeak
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.fpn import FpnSettings, Merge
from hires.models.segmentation.unet import Block, UnetSettings

CASES = {
    "unet": (UnetSettings(), UnetDecoderBlock, Block),
    "unet, full resolution": (UnetSettings(full_resolution_skip=True), UnetDecoderBlock, Block),
    "fpn, add": (FpnSettings(), MergeBlock, Merge),
    "fpn, cat": (FpnSettings(merge="cat"), MergeBlock, Merge),
}


def step(settings, kind, exchanged, precision):
    """Output and gradients of one step with one kind of parts, and the peak of live bytes."""
    torch.manual_seed(0)
    network = settings.build(BackboneSettings(name="resnet10t", pretrained=False).build(), 5)
    network.to(memory_format=torch.channels_last)
    for module in network.modules():
        if type(module) is exchanged:
            module.__class__ = kind
    images = torch.randn(2, 3, 64, 96).contiguous(memory_format=torch.channels_last)
    with LivePeak() as meter:
        with torch.autocast("cpu", precision, enabled=precision != torch.float32):
            output = network(images)
        output.float().square().mean().backward()
    found = {"output": output.detach(), **{name: p.grad for name, p in network.named_parameters()}}
    return {name: each for name, each in found.items() if each is not None}, meter.peak


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_in_no_more_memory(name, precision):
    settings, library, ours = CASES[name]
    (expected, before), (found, after) = (step(settings, kind, ours, precision) for kind in (library, ours))
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())
    assert after <= before


def test_levels_are_added_up_without_a_copy_of_all():
    maps = [torch.ones(1, 8, 16, 16, requires_grad=True) for _ in range(4)]

    def peak(kind):
        merge = MergeBlock("add")
        merge.__class__ = kind
        with LivePeak() as meter:
            merge(maps)
        return meter.peak

    assert peak(Merge) <= peak(MergeBlock) - 3 * maps[0].nbytes
