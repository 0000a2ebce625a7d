"""Statistics of a whole image instead of each window."""

import pytest
import torch
from timm.layers import GroupNormAct
from torch import nn

from hires.models.statistics import image_statistics


def network():
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 8, 1), GroupNormAct(8, 4)
    )
    for layer in (layers[1], layers[4]):
        layer.weight.data.uniform_(0.5, 2)
        layer.bias.data.uniform_(-1, 1)
    return layers.eval()


@torch.inference_mode()
def test_windows_get_what_the_whole_image_gets():
    layers, image = network(), torch.rand(1, 3, 32, 64) * torch.linspace(0.1, 5, 64)
    whole = layers(image)
    halves = image[..., :32], image[..., 32:]
    assert not torch.allclose(layers(halves[0]), whole[..., :32], atol=0.1)
    with image_statistics(layers, lambda: layers(image)):
        torch.testing.assert_close(layers(image), whole, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(torch.cat([layers(half) for half in halves], 3), whole, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_statistics_are_the_mean_over_the_views():
    norm = nn.GroupNorm(1, 2, eps=0)
    views = torch.tensor([1.0, 3.0]).view(2, 1, 1, 1).expand(2, 2, 4, 4)
    with image_statistics(norm, lambda: [norm(view[None]) for view in views]):  # mean 2, mean square 5
        torch.testing.assert_close(norm(views)[:, 0, 0, 0], torch.tensor([-1.0, 1.0]))


@torch.inference_mode()
def test_afterwards_it_is_as_before_also_after_an_error():
    layers, image = network(), torch.rand(1, 3, 8, 8)
    before = layers(image)
    with pytest.raises(RuntimeError, match="stop"), image_statistics(layers, lambda: layers(image * 3)):
        raise RuntimeError("stop")
    assert torch.equal(layers(image), before)
    with pytest.raises(RuntimeError, match="look"), image_statistics(layers, look):
        pass
    assert torch.equal(layers(image), before)


def look():
    raise RuntimeError("look")


@torch.inference_mode()
def test_levels_that_share_a_layer_keep_their_own():
    """The heads of a detector run on every level of a pyramid."""
    norm = nn.GroupNorm(1, 2, eps=0)
    fine = torch.tensor([1.0, 3.0]).view(2, 1, 1, 1).expand(2, 2, 4, 4)
    coarse = 10 * torch.tensor([1.0, 3.0]).view(2, 1, 1, 1).expand(2, 2, 2, 2)
    with image_statistics(
        norm, lambda: [(norm(level[None, 0]), norm(level[None, 1])) for level in (fine, coarse)]
    ):
        for level in (fine, coarse):
            torch.testing.assert_close(norm(level)[:, 0, 0, 0], torch.tensor([-1.0, 1.0]))
