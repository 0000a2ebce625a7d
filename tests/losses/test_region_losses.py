"""Dice, Tversky and Lovász equal their textbook forms, of each image and each class that it shows."""

import pytest
import torch
from segmentation_models_pytorch.losses import LovaszLoss, TverskyLoss

from hires.interfaces import IGNORE
from hires.losses.region import jaccard_steps
from hires.losses.segmentation import LossSettings


def alone(name, **further):
    return LossSettings(**{"cross_entropy": 0.0, "dice": 0.0, name: 1.0}, **further)


def regions(case):
    """Probabilities and truth of the valid pixels of each image and each class that it shows."""
    probabilities = case.logits.sigmoid() if case.multilabel else case.logits.softmax(1)
    for p, truth, mask in zip(probabilities, case.truth(), case.masks, strict=True):
        for p_class, t_class in zip(p, truth, strict=True):
            if t_class.any():
                yield p_class[mask != IGNORE], t_class[mask != IGNORE].float()


def test_dice_is_the_mean_over_images_and_their_classes(case):
    terms = [1 - (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1) for p, t in regions(case)]
    assert len(terms) == 11  # one image lacks a class
    torch.testing.assert_close(case.values(alone("dice"))["dice"], torch.stack(terms).mean())


def test_tversky_is_that_of_each_image_and_class(case):
    value = case.values(alone("tversky", tversky_alpha=0.2, tversky_beta=0.9))["tversky"]
    oracle = TverskyLoss("multilabel", alpha=0.2, beta=0.9, smooth=0.5, from_logits=False)
    terms = [oracle(p[None, None], t[None, None]) for p, t in regions(case)]
    torch.testing.assert_close(value, torch.stack(terms).mean())


def test_tversky_with_equal_weights_is_dice(case):
    values = case.values(LossSettings(tversky=1.0, tversky_alpha=0.5, tversky_beta=0.5))
    torch.testing.assert_close(values["tversky"], values["dice"])


def test_tversky_prefers_what_costs_less(exclusive):
    """With a dear miss, painting too much of a class is cheaper than painting too little."""
    mask = torch.zeros(1, 8, 8, dtype=torch.uint8)
    mask[:, :, 3:5] = 1
    costs = {}
    for painted in (1, 3):
        answer = torch.zeros(1, 8, 8)
        answer[:, :, 3 : 3 + painted] = 1
        logits = 50 * torch.stack([1 - answer, answer], 1)
        case = exclusive._replace(logits=logits, masks=mask)
        for name, alpha, beta in (("miss", 0.1, 0.9), ("alarm", 0.9, 0.1)):
            settings = alone("tversky", tversky_alpha=alpha, tversky_beta=beta)
            costs[painted, name] = float(case.values(settings)["tversky"])
    assert costs[3, "miss"] < costs[1, "miss"]
    assert costs[1, "alarm"] < costs[3, "alarm"]


def test_lovasz_softmax_is_the_papers_per_image(exclusive):
    """The oracle averages over the classes of an image; value and gradient must agree."""
    case = exclusive._replace(logits=exclusive.logits.requires_grad_())
    value = case.values(alone("lovasz"))["lovasz"]
    oracle = LovaszLoss("multiclass", per_image=True, ignore_index=IGNORE)
    total = pairs = 0
    for image in range(3):
        classes = int(case.truth()[image].any((1, 2)).sum())
        part = slice(image, image + 1)
        total, pairs = total + classes * oracle(case.logits[part], case.masks[part].long()), pairs + classes
    torch.testing.assert_close(value, total / pairs)
    slopes, expected = (torch.autograd.grad(v, case.logits)[0] for v in (value, total / pairs))
    torch.testing.assert_close(slopes, expected, rtol=1e-3, atol=1e-7)


def test_lovasz_is_the_extension_of_the_jaccard_loss(case):
    """Differences of the Jaccard loss as the pixels become wrong one by one, times their errors."""
    terms = []
    for p, truth in regions(case):
        errors, order = (truth - p).abs().double().sort(descending=True)
        hit = truth[order].double()
        loss = 1 - (hit.sum() - hit.cumsum(0)) / (hit.sum() + (1 - hit).cumsum(0))
        terms.append((errors * loss.diff(prepend=loss.new_zeros(1))).sum())
    value = case.values(alone("lovasz"))["lovasz"]
    torch.testing.assert_close(value, torch.stack(terms).mean().float())


def test_lovasz_of_hard_predictions_is_the_jaccard_loss(exclusive):
    mask = torch.tensor([[[1, 1, 1, 0, 0, 0, 0, IGNORE]]], dtype=torch.uint8)
    answer = torch.tensor([[[1, 1, 0, 1, 0, 0, 0, 1.0]]])
    logits = 200 * torch.stack([1 - answer, answer], 1)
    value = exclusive._replace(logits=logits, masks=mask).values(alone("lovasz"))["lovasz"]
    assert float(value) == pytest.approx(((1 - 3 / 5) + (1 - 2 / 4)) / 2)


def test_steps_of_large_images_stay_exact():
    """Neighbouring values of the loss differ by less than float32 resolves."""
    truth = torch.rand(2_000_000, generator=torch.Generator().manual_seed(0)) < 0.3
    hit = truth.double()
    loss = 1 - (hit.sum() - hit.cumsum(0)) / (hit.sum() + (1 - hit).cumsum(0))
    expected = loss.diff(prepend=loss.new_zeros(1))
    torch.testing.assert_close(jaccard_steps(truth).double(), expected, rtol=1e-5, atol=1e-15)


def test_steps_of_one_pixel():
    assert jaccard_steps(torch.tensor([True])).tolist() == [1]
