"""What the tests of detectors share: random truth, torchvision's models around our networks, comparisons."""

from collections import OrderedDict

import torch
from torch import nn
from torchvision.models.detection.anchor_utils import AnchorGenerator

SIDE = 128  # of an image, pixels: a multiple of all strides but FCOS's, where torchvision's anchors lie evenly


class Features(nn.Module):
    """The maps of a network's neck, as torchvision wants them."""

    def __init__(self, network):
        super().__init__()
        self.network, self.out_channels = network, network.neck.channels

    def forward(self, x):
        return OrderedDict((str(i), level) for i, level in enumerate(self.network.features(x)))


def as_they_are(side=SIDE):
    """Arguments with which torchvision neither resizes nor normalises images."""
    return {"min_size": side, "max_size": side, "image_mean": [0.0] * 3, "image_std": [1.0] * 3}


def dense_reference(kind, network, choice, sizes, aspects=(1.0,), side=SIDE):
    """torchvision's dense detector of a network, with anchors of `sizes` on each level."""
    model = kind(
        Features(network),
        3,
        **as_they_are(side),
        anchor_generator=AnchorGenerator(sizes, (aspects,) * len(sizes)),
        head=network.head,
        score_thresh=choice.score,
        nms_thresh=choice.iou,
        detections_per_img=choice.most,
        topk_candidates=choice.candidates,
    )
    return model.eval()


def images(count, side=SIDE):
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(1))


def target(rng, count, ignored=False):
    """Random objects of three classes."""
    corners = torch.rand(count, 2, generator=rng) * (SIDE - 12)
    sides = 10 + torch.rand(count, 2, generator=rng) * 50
    return {
        "boxes": torch.cat([corners, (corners + sides).clamp(max=SIDE)], 1),
        "labels": torch.randint(3, (count,), generator=rng),
        "ignored": torch.full((count,), ignored),
        "size": torch.tensor([SIDE, SIDE]),
    }


def assert_same(ours, theirs, background=0):
    """Detections of an image are torchvision's, whose labels are higher by `background`."""
    torch.testing.assert_close(ours.boxes, theirs["boxes"], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.scores, theirs["scores"], atol=1e-4, rtol=1e-4)
    assert torch.equal(ours.labels, theirs["labels"] - background)


def assert_stages_cover(network):
    """Stages name every parameter once."""
    modules = [network.get_submodule(name) for names in network.stages().values() for name in names]
    named = [parameter for module in modules for parameter in module.parameters()]
    assert sorted(map(id, named)) == sorted(map(id, network.parameters()))
