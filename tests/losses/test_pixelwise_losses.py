"""Cross-entropy and focal loss equal their textbook forms, also with weights of classes and borders."""

import numpy as np
import pytest
import torch
from segmentation_models_pytorch.losses import FocalLoss, SoftBCEWithLogitsLoss
from torch.nn import functional as F

from hires.interfaces import IGNORE
from hires.losses.border import near_border
from hires.losses.segmentation import LossSettings

WEIGHTS = (0.1, 1.0, 2.0, 5.0)
BORDER = {"boundary_weight": 3.0, "boundary_radius": 1}


def cross_entropy(**further):
    return LossSettings(dice=0.0, **further)


def focal(**further):
    return LossSettings(cross_entropy=0.0, dice=0.0, focal=1.0, **further)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_cross_entropy_is_torchs_mean(exclusive, weights):
    value = exclusive.values(cross_entropy(class_weights=weights))["cross_entropy"]
    weight = None if weights is None else torch.tensor(weights)
    expected = F.cross_entropy(exclusive.logits, exclusive.masks.long(), weight=weight, ignore_index=IGNORE)
    torch.testing.assert_close(value, expected)


def test_binary_cross_entropy_is_the_mean_over_pixels_and_classes(several):
    value = several.values(cross_entropy(class_weights=WEIGHTS))["cross_entropy"]
    truth = several.truth().float()
    truth[(several.masks == IGNORE)[:, None].expand_as(truth)] = IGNORE
    weight = torch.tensor(WEIGHTS)[:, None, None]
    oracle = SoftBCEWithLogitsLoss(weight=weight, ignore_index=IGNORE, reduction="sum")
    total = oracle(several.logits, truth)
    torch.testing.assert_close(value, total / ((several.masks != IGNORE).sum() * weight.sum()))


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_loss_is_the_formula_of_the_paper(exclusive, gamma):
    value = exclusive.values(focal(focal_gamma=gamma, class_weights=WEIGHTS, **BORDER))["focal"]
    near = near_border(exclusive.masks, 1).numpy()
    total = weights = 0.0
    logits, masks = exclusive.logits.double().numpy(), exclusive.masks.numpy()
    for image, y, x in zip(*np.nonzero(masks != IGNORE), strict=True):
        scores, right = np.exp(logits[image, :, y, x]), masks[image, y, x]
        p = scores[right] / scores.sum()
        weight = WEIGHTS[right] * (1 + 3 * near[image, y, x])
        total -= weight * (1 - p) ** gamma * np.log(p)
        weights += weight
    assert float(value) == pytest.approx(total / weights, rel=1e-5)


def test_focal_loss_of_several_labels_is_the_sigmoid_form(several):
    value = several.values(focal(focal_gamma=1.5))["focal"]
    counted = several.masks != IGNORE
    logits, truth = (x.permute(1, 0, 2, 3)[:, counted][None] for x in (several.logits, several.truth().float()))
    torch.testing.assert_close(value, FocalLoss("multilabel", alpha=None, gamma=1.5)(logits, truth))


def test_focal_loss_without_focus_is_cross_entropy(case):
    values = case.values(LossSettings(focal=1.0, focal_gamma=0.0, class_weights=WEIGHTS, **BORDER))
    torch.testing.assert_close(values["focal"], values["cross_entropy"])


def test_pixels_near_a_border_count_more(case):
    """A mean in which such pixels stand four times."""
    value = case.values(cross_entropy(**BORDER))["cross_entropy"]
    near = near_border(case.masks, 1)
    beside = case._replace(masks=case.masks.masked_fill(~near, IGNORE))
    mean, mean_beside = (c.values(cross_entropy())["cross_entropy"] for c in (case, beside))
    count, count_beside = ((c.masks != IGNORE).sum() for c in (case, beside))
    assert 0 < count_beside < count
    expected = (mean * count + 3 * mean_beside * count_beside) / (count + 3 * count_beside)
    torch.testing.assert_close(value, expected)
