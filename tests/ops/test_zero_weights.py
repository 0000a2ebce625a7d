"""Networks that are built without random numbers."""

import pytest
import timm
import torch
from torch import nn

from hires.ops.zero_weights import ZeroWeights


def truncated() -> nn.Module:
    layer = nn.Linear(8, 8)
    nn.init.trunc_normal_(layer.weight, std=0.02)
    return nn.Sequential(layer, nn.BatchNorm1d(8))


BUILDERS = {
    "resnet": lambda: timm.create_model("test_resnet", pretrained=False),
    "convnext": lambda: timm.create_model("test_convnext", pretrained=False),
    "vit": lambda: timm.create_model("test_vit", pretrained=False),
    "truncated": truncated,
    "embedding": lambda: nn.Embedding(5, 3),
    "lstm": lambda: nn.LSTM(4, 4),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_the_same_shapes_with_zeros_for_random_numbers(build):
    torch.manual_seed(0)
    usual = build()
    with ZeroWeights():
        zeros = build()
    torch.manual_seed(1)
    other = build()
    again, ours = dict(other.named_parameters()), dict(zeros.named_parameters())
    assert list(ours) == list(again)
    random = 0
    for name, parameter in usual.named_parameters():
        assert (ours[name].shape, ours[name].dtype, ours[name].requires_grad) == (
            parameter.shape,
            parameter.dtype,
            parameter.requires_grad,
        )
        if torch.equal(parameter, again[name]):  # constants, as those of norms, are what they are
            assert torch.equal(ours[name], parameter), name
        else:
            random += 1
            assert not ours[name].any(), name
    assert random
    for (name, buffer), other_buffer in zip(usual.named_buffers(), zeros.buffers(), strict=True):
        assert torch.equal(buffer, other_buffer), name


def test_no_random_numbers_are_drawn():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with ZeroWeights():
        BUILDERS["resnet"]()
        BUILDERS["truncated"]()
    assert torch.equal(torch.get_rng_state(), before)


def test_afterwards_weights_are_random_again():
    with ZeroWeights():
        assert not nn.Linear(4, 4).weight.any()
    assert nn.Linear(4, 4).weight.all()
