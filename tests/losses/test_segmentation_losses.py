"""The losses equal their textbook forms, and their normalizers add up."""

import pytest
import torch
from torch.nn import functional as F

from hires.interfaces import IGNORE, ConfigError
from hires.losses.segmentation import LossSettings


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 4, 16, 20, generator=generator)
    masks = torch.randint(4, (3, 16, 20), dtype=torch.uint8, generator=generator)
    masks[0, :8] = IGNORE
    masks[1][masks[1] == 3] = 2
    return logits, masks


def losses(settings, logits, masks):
    loss = settings.build(logits.shape[1])
    return loss(logits, masks, loss.normalizers(list(masks)))


@pytest.mark.parametrize("weights", [None, (0.1, 1.0, 2.0, 5.0)])
def test_cross_entropy_is_torchs_mean(data, weights):
    logits, masks = data
    value = losses(LossSettings(dice=0.0, class_weights=weights), logits, masks)["cross_entropy"]
    weight = None if weights is None else torch.tensor(weights)
    torch.testing.assert_close(value, F.cross_entropy(logits, masks.long(), weight=weight, ignore_index=IGNORE))


def test_dice_is_the_mean_over_images_and_their_classes(data):
    logits, masks = data
    value = losses(LossSettings(cross_entropy=0.0), logits, masks)["dice"]
    terms = []
    for probabilities, mask in zip(logits.softmax(1), masks, strict=True):
        valid = mask != IGNORE
        for index in mask[valid].unique().tolist():
            p, t = probabilities[index][valid], (mask[valid] == index).float()
            terms.append(1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1))
    assert len(terms) == 11  # one image lacks a class
    torch.testing.assert_close(value, torch.stack(terms).mean())


def test_perfect_prediction_costs_nothing(data):
    _, masks = data
    logits = 100.0 * F.one_hot(masks.long().clamp(max=3), 4).permute(0, 3, 1, 2)
    assert all(float(value) < 1e-5 for value in losses(LossSettings(), logits, masks).values())


def test_coarse_logits_are_scaled_up(data):
    logits, masks = data
    small = F.avg_pool2d(logits, 2)
    scaled = F.interpolate(small, size=(16, 20), mode="bilinear", align_corners=False)
    for name, value in losses(LossSettings(), small, masks).items():
        torch.testing.assert_close(value, losses(LossSettings(), scaled, masks)[name])


def test_normalizers_add_up(data):
    loss = LossSettings(class_weights=(0.1, 1.0, 2.0, 5.0)).build(4)
    masks = list(data[1])
    whole, parts = loss.normalizers(masks), [loss.normalizers([mask]) for mask in masks]
    for name, value in whole.items():
        torch.testing.assert_close(sum(part[name] for part in parts), value)


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="nothing to train"):
        LossSettings(cross_entropy=0.0, dice=0.0)
    with pytest.raises(ConfigError, match="2 weights for 3 classes"):
        LossSettings(class_weights=(1.0, 2.0)).build(3)
