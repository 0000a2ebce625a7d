"""What holds for every loss: the split into micro-batches, nothing to count, precision, wrong settings."""

import pytest
import torch
from torch.nn import functional as F

from hires.interfaces import IGNORE, ConfigError
from hires.losses.segmentation import LossSettings

NAMES = ("cross_entropy", "dice", "focal", "tversky", "lovasz")
WEIGHTS = (0.1, 1.0, 2.0, 5.0)


def only(name, **further):
    return LossSettings(**{other: float(other == name) for other in NAMES}, **further)


def every(**further):
    return LossSettings(**dict.fromkeys(NAMES, 1.0), **further)


def gradient(loss, logits, masks, size):
    """Losses by name and the gradient of their sum, `size` images at a time."""
    logits = logits.clone().requires_grad_()
    normalizers, totals = loss.normalizers(list(masks)), {}
    for start in range(0, len(masks), size):
        part = slice(start, start + size)
        losses = loss(logits[part], masks[part], normalizers)
        sum(losses.values()).backward()
        for name, value in losses.items():
            totals[name] = totals.get(name, 0) + value.detach()
    return totals, logits.grad


@pytest.mark.parametrize("size", [4, 3, 1])
@pytest.mark.parametrize("name", NAMES)
def test_no_loss_depends_on_the_micro_batch(eight, name, size):
    loss = eight.loss(only(name, class_weights=WEIGHTS, boundary_weight=2.0, boundary_radius=1))
    coarse = F.avg_pool2d(eight.logits, 2)
    values, whole = gradient(loss, coarse, eight.masks, 8)
    split_values, split = gradient(loss, coarse, eight.masks, size)
    assert list(values) == [name]
    assert whole.any()
    assert (split - whole).norm() <= 1e-5 * whole.norm()
    torch.testing.assert_close(split_values[name], values[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_only_ignored_pixels_cost_nothing(case, gamma):
    loss = case.loss(every(focal_gamma=gamma, boundary_weight=1.0))
    values, slopes = gradient(loss, case.logits, torch.full_like(case.masks, IGNORE), 2)
    assert list(values) == list(NAMES)
    assert all(float(value) == 0 for value in values.values())
    assert not slopes.any()  # NaN would be any


def test_ignored_pixels_have_no_gradient(case):
    _, slopes = gradient(case.loss(every(boundary_weight=1.0)), case.logits, case.masks, 3)
    assert not slopes.permute(0, 2, 3, 1)[case.masks == IGNORE].any()
    assert slopes.permute(0, 2, 3, 1)[case.masks != IGNORE].all()


def test_normalizers_add_up(case):
    loss = case.loss(every(class_weights=WEIGHTS, boundary_weight=0.5))
    masks = list(case.masks)
    whole, parts = loss.normalizers(masks), [loss.normalizers([mask]) for mask in masks]
    for name, value in whole.items():
        assert value > 0
        torch.testing.assert_close(sum(part[name] for part in parts), value)


def test_perfect_prediction_costs_nothing(case):
    logits = 60.0 * (2 * case.truth().float() - 1)
    perfect = case._replace(logits=logits)
    assert all(abs(float(value)) < 1e-5 for value in perfect.values(every()).values())


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_sure_predictions_have_finite_gradients(case, gamma):
    """The probability of what is right rounds to 1 in some pixels and to 0 in others."""
    loss = case.loss(every(focal_gamma=gamma))
    values, slopes = gradient(loss, 200 * case.logits, case.masks, 3)
    assert all(torch.isfinite(value) for value in values.values())
    assert torch.isfinite(slopes).all()


def test_coarse_logits_are_scaled_up(case):
    small = F.avg_pool2d(case.logits, 2)
    scaled = F.interpolate(small, size=(16, 20), mode="bilinear", align_corners=False)
    expected = case._replace(logits=scaled).values(every())
    for name, value in case._replace(logits=small).values(every()).items():
        torch.testing.assert_close(value, expected[name])


def test_losses_are_computed_in_float32_under_autocast(case):
    rounded = case._replace(logits=case.logits.bfloat16())
    expected = rounded._replace(logits=rounded.logits.float()).values(every(boundary_weight=1.0))
    with torch.autocast("cpu", torch.bfloat16):
        values = rounded.values(every(boundary_weight=1.0))
    for name, value in values.items():
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=0)


def test_weights_of_losses_multiply(case):
    single, tripled = case.values(every()), case.values(LossSettings(**dict.fromkeys(NAMES, 3.0)))
    for name, value in single.items():
        torch.testing.assert_close(tripled[name], 3 * value)


def test_balanced_class_weights_come_from_the_pixels():
    settings = LossSettings(class_weights="balanced")
    weights = settings.build(2, pixels=lambda: [90, 10]).class_weights
    torch.testing.assert_close(weights, torch.tensor([100 / 180, 5.0]))
    assert settings.build(2).class_weights.tolist() == [1, 1]  # no data, as in evaluation
    assert LossSettings().build(2, pixels=pytest.fail).class_weights.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict.fromkeys(NAMES, 0.0), "nothing to train"),
        ({"focal": -1.0}, "focal: got -1.0, allowed: a number >= 0"),
        ({"focal_gamma": -0.5}, "focal_gamma: got -0.5"),
        ({"boundary_weight": -1.0}, "boundary_weight: got -1.0"),
        ({"boundary_radius": 0}, "boundary_radius: got 0, allowed: a whole number from 1 to 64"),
        ({"boundary_radius": 65}, "boundary_radius: got 65"),
        ({"class_weights": "balance"}, "class_weights: got 'balance', allowed: .*balanced, sqrt_balanced or null"),
        ({"class_weights": (1.0, -2.0)}, "class_weights: got"),
        ({"tversky": 1.0, "tversky_alpha": 0.0, "tversky_beta": 0.0}, "both 0"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message) as refused:
        LossSettings(**settings)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("classes", "multilabel", "message"),
    [
        (3, False, "task.loss.class_weights: 2 weights for 3 classes"),
        (1, False, "data.classes .or model.num_classes.: got 1, allowed: 2 and more.*model.multilabel=true"),
        (8, True, "data.classes .or model.num_classes.: got 8, allowed with model.multilabel=true: at most 7"),
    ],
)
def test_wrong_numbers_of_classes_are_refused(classes, multilabel, message):
    with pytest.raises(ConfigError, match=message) as refused:
        LossSettings(class_weights=(1.0, 2.0)).build(classes, multilabel=multilabel)
    assert "\n" not in str(refused.value)
