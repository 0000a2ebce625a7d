"""Logits with masks of both kinds; ignored pixels, and an image that lacks a class, in each."""

from typing import NamedTuple

import pytest
import torch

from hires.interfaces import IGNORE


class Case(NamedTuple):
    """Logits (B, K, H, W) with masks (B, H, W) of one kind."""

    logits: torch.Tensor
    masks: torch.Tensor
    multilabel: bool

    def loss(self, settings):
        return settings.build(self.logits.shape[1], multilabel=self.multilabel)

    def values(self, settings):
        """The losses of all images at once."""
        loss = self.loss(settings)
        return loss(self.logits, self.masks, loss.normalizers(list(self.masks)))

    def truth(self):
        """Pixels of each class, (B, K, H, W) bool, by the words of the definition."""
        valid = self.masks != IGNORE
        indices = range(self.logits.shape[1])
        shown = [(self.masks // 2**c % 2 == 1) if self.multilabel else self.masks == c for c in indices]
        return torch.stack(shown, 1) & valid[:, None]


def make_case(multilabel, images=3):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(images, 4, 16, 20, generator=generator)
    values = 16 if multilabel else 4
    # blocks of 2 x 2 pixels: noise would put every pixel beside a border
    masks = torch.randint(values, (images, 8, 10), dtype=torch.uint8, generator=generator)
    masks = masks.repeat_interleave(2, 1).repeat_interleave(2, 2)
    masks[0, :8] = IGNORE
    for image in range(2, images):
        masks[image, :, : 2 * image] = IGNORE
    if multilabel:
        masks[1][masks[1] != IGNORE] &= 0b0111
    else:
        masks[1][masks[1] == 3] = 2
    return Case(logits, masks, multilabel)


@pytest.fixture
def exclusive():
    return make_case(multilabel=False)


@pytest.fixture
def several():
    return make_case(multilabel=True)


@pytest.fixture(params=[False, True], ids=["exclusive", "multilabel"])
def eight(request):
    """Eight images of either kind."""
    return make_case(request.param, images=8)


@pytest.fixture(params=[False, True], ids=["exclusive", "multilabel"])
def case(request):
    return make_case(request.param)
