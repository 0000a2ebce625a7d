"""One optimizer step: the gradient does not depend on how the batch is split."""

import copy

import pytest
import torch

from hires.engine.step import accumulate, train_step
from hires.interfaces import IGNORE, DataLimits, Sample
from hires.losses.segmentation import LossSettings
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.unet import UnetSettings
from hires.tasks.segmentation import SegmentationSettings


@pytest.fixture
def task():
    torch.manual_seed(0)
    backbone = BackboneSettings(name="test_resnet", pretrained=False).build()
    network = UnetSettings(norm="group", decoder_channels=(32, 16, 16, 8, 8)).build(backbone, 4)
    for parameter in network.parameters():
        if not parameter.any():  # zero-initialised scales would hide the gradients of their blocks
            torch.nn.init.normal_(parameter, std=0.3)
    loss = LossSettings(class_weights=(0.5, 1.0, 2.0, 3.0))
    return SegmentationSettings(loss=loss).build(network, 4)


@pytest.fixture
def samples(task):
    """Eight samples with very different shares of ignored pixels and of classes."""
    batch = task.example_batch(8, (64, 64), DataLimits())
    for index, target in enumerate(batch.targets):
        target["mask"][: 7 * index] = IGNORE
        target["mask"][:, : 5 * index] = index % 4
    return [Sample(i, t, "") for i, t in zip(batch.images, batch.targets, strict=True)]


def gradients(task, samples, size):
    task.zero_grad()
    losses = accumulate(task, samples, micro_batch_size=size)
    return losses, {name: p.grad.clone() for name, p in task.named_parameters()}


@pytest.mark.parametrize("size", [4, 3, 1])
def test_gradient_does_not_depend_on_the_micro_batch(task, samples, size):
    losses, whole = gradients(task, samples, 8)
    split_losses, split = gradients(task, samples, size)
    for name, gradient in whole.items():
        assert gradient.any(), name
        assert (split[name] - gradient).norm() <= 1e-5 * gradient.norm(), name
    for name, value in losses.items():
        torch.testing.assert_close(split_losses[name], value, rtol=1e-5, atol=1e-6)


def test_mean_of_mean_losses_would_be_wrong(task, samples):
    """The failing case that the normalizers exist for: it moves gradients by percents."""
    _, whole = gradients(task, samples, 8)
    task.zero_grad()
    for sample in samples:
        losses = task_loss(task, [sample])
        (losses / len(samples)).backward()
    naive = {name: p.grad for name, p in task.named_parameters()}
    worst = max(float((naive[n] - g).norm() / g.norm()) for n, g in whole.items())
    assert worst > 0.02


def task_loss(task, samples):
    from hires.engine.step import collate

    batch = collate(samples)
    return sum(task(batch, task.normalizers(batch.targets)).values())


def test_only_ignored_pixels_give_no_gradient(task, samples):
    for sample in samples:
        sample.target["mask"].fill_(IGNORE)
    losses, whole = gradients(task, samples, 3)
    assert all(float(value) == 0 for value in losses.values())
    assert all(float(gradient.abs().max()) == 0 for gradient in whole.values())


def test_step_updates_and_clears(task, samples):
    before = copy.deepcopy(task.state_dict())
    optimizer = torch.optim.SGD(task.parameters(), lr=0.1)
    calls = []
    train_step(task, samples, optimizer, micro_batch_size=3, clip=lambda: calls.append(1))
    assert calls == [1]
    assert all(p.grad is None for p in task.parameters())
    assert any(not torch.equal(before[k], v) for k, v in task.state_dict().items())
