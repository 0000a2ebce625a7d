"""The segmentation task: pixels are normalised once, predictions are probabilities, stages are modules."""

import numpy as np
import pytest
import torch
from torch import nn

from hires.interfaces import Batch, ConfigError, DataLimits, View, Window
from hires.losses.segmentation import LossSettings
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.unet import UnetSettings
from hires.tasks.network_task import Normalize
from hires.tasks.segmentation import SegmentationSettings


@pytest.fixture
def task():
    torch.manual_seed(0)
    backbone = BackboneSettings(name="resnet10t", pretrained=False).build()
    network = UnetSettings(decoder_channels=(32, 16, 16, 8, 8), full_resolution_skip=True).build(backbone, 3)
    return SegmentationSettings().build(network, 3)


@pytest.mark.parametrize(("dtype", "top"), [(torch.uint8, 255), (torch.uint16, 65535)])
def test_normalize(dtype, top):
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    image = torch.tensor([0, top // 3, top]).view(1, 1, 1, 3).expand(1, 3, 1, 3)
    values = Normalize(mean, std)(image.to(dtype))
    for channel in range(3):
        expected = (torch.tensor([0, (top // 3) / top, 1.0]) - mean[channel]) / std[channel]
        torch.testing.assert_close(values[0, channel, 0], expected, rtol=1e-4, atol=1e-4)


def test_backbone_sees_pixels_normalised_once(task):
    """White becomes (1 - mean) / std of the pretraining: neither raw bytes nor normalised twice."""
    seen = []
    task.network.backbone.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    batch = Batch(torch.full((2, 3, 64, 64), 255, dtype=torch.uint8), [{"mask": torch.zeros(64, 64).byte()}] * 2)
    task(batch, task.normalizers(batch.targets))
    task.predict(batch)
    white = [(1 - m) / s for m, s in zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True)]
    assert len(seen) == 2
    for pixels in seen:
        torch.testing.assert_close(pixels[0, :, 0, 0], torch.tensor(white))


def test_predictions_are_probabilities(task):
    batch = task.example_batch(2, (64, 96), DataLimits())
    probabilities = task.eval().predict(batch)
    assert probabilities.shape == (2, 3, 64, 96)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(2, 64, 96))


def test_stages_are_modules_and_cover_every_parameter(task):
    stages = task.stages()
    assert list(stages) == ["stem", "stage1", "stage2", "stage3", "stage4", "decoder", "head", "loss"]
    named = [task.get_submodule(name) for names in stages.values() for name in names]
    covered = {id(p) for module in named for p in module.parameters()}
    unused = {n for n, p in task.named_parameters() if id(p) not in covered}
    assert not unused


class OnePixelNetwork(nn.Module):
    """A network without a backbone: the channels are its logits, in tens."""

    stride = 1

    def __init__(self, channels=3):
        super().__init__()
        self.backbone = nn.Identity()
        self.backbone.mean, self.backbone.std = (0.5,) * channels, (0.5,) * channels

    def forward(self, x):
        return 10 * x


def views(task, images):
    """An image beside another, as `stitch` gets their predictions."""
    return [(View(Window(0, 4 * i, 5, 4), 5, 4), p) for i, p in enumerate(task.predict(Batch(images, [])))]


def test_exclusive_predictions_become_class_indices():
    images = torch.randint(256, (2, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    task = SegmentationSettings().build(OnePixelNetwork(), 3)
    (rows,) = task.stitch((5, 8), views(task, images))
    assert rows.labels.dtype == np.uint8
    assert rows.labels.tolist() == torch.cat(list(images), 2).int().argmax(0).tolist()


def test_several_labels_become_bit_fields():
    images = torch.randint(256, (2, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    task = SegmentationSettings(multilabel=True).build(OnePixelNetwork(), 3)
    probabilities = task.predict(Batch(images, []))
    torch.testing.assert_close(probabilities, (10 * (images / 127.5 - 1)).sigmoid(), rtol=1e-4, atol=1e-5)
    (rows,) = task.stitch((5, 8), views(task, images))
    bright = torch.cat(list(images), 2) > 127
    assert rows.labels.dtype == np.uint8
    assert rows.labels.tolist() == (bright[0] + 2 * bright[1] + 4 * bright[2]).tolist()


@pytest.mark.parametrize("classes", [1, 3, 7])
def test_examples_of_several_labels_are_valid_masks(classes):
    task = SegmentationSettings(multilabel=True).build(OnePixelNetwork(classes), classes)
    batch = task.example_batch(2, (16, 24), DataLimits())
    masks = torch.stack([target["mask"] for target in batch.targets])
    assert masks.max() == 2**classes - 1
    losses = task(batch, task.normalizers(batch.targets))
    assert all(0 < float(value) < 100 for value in losses.values())


@pytest.mark.parametrize(("classes", "multilabel"), [(1, False), (8, True)])
def test_classes_that_masks_cannot_hold_are_refused(classes, multilabel):
    class Unread:
        def __init__(self):
            self.multilabel = multilabel

        def __len__(self):
            pytest.fail("the masks need not be read for this")

        def mask(self, index):
            pytest.fail("the masks need not be read for this")

    settings = SegmentationSettings(LossSettings(class_weights="balanced"), multilabel)
    with pytest.raises(ConfigError, match="model.multilabel="):
        settings.build(OnePixelNetwork(classes), classes, Unread())


class Masks:
    """A source of two masks without images."""

    classes = ("a", "b", "c")

    def __init__(self, multilabel):
        self.multilabel = multilabel

    def __len__(self):
        return 2

    def mask(self, index):
        rows = [[[0, 0, 0, 1]], [[255, 1, 2, 0]]]
        if self.multilabel:
            rows = [[[1, 1, 3, 5]], [[255, 3, 0, 0]]]
        return np.array(rows[index], np.uint8)


def test_classes_are_weighed_by_the_pixels_of_the_training_data():
    pixels = [4, 2, 1]
    settings = SegmentationSettings(LossSettings(class_weights="balanced"))
    weights = settings.build(OnePixelNetwork(), 3, Masks(False)).loss.class_weights
    torch.testing.assert_close(weights, torch.tensor([sum(pixels) / (3 * n) for n in pixels]))
    assert settings.build(OnePixelNetwork(), 3).loss.class_weights.tolist() == [1, 1, 1]


def test_several_labels_are_not_weighed_by_their_pixels():
    with pytest.raises(ConfigError, match=r"^task.loss.class_weights: got balanced.*a list of numbers"):
        SegmentationSettings(LossSettings(class_weights="balanced"), True).build(OnePixelNetwork(), 3, Masks(True))


@pytest.mark.parametrize("multilabel", [False, True])
def test_data_and_task_agree_on_what_a_mask_is(multilabel):
    with pytest.raises(ConfigError, match=r"^task.multilabel: .* set both by model.multilabel"):
        SegmentationSettings(multilabel=multilabel).build(OnePixelNetwork(), 3, Masks(not multilabel))


def test_weights_of_the_loss_are_not_part_of_a_checkpoint():
    task = SegmentationSettings(LossSettings(class_weights=(1.0, 2.0, 3.0))).build(OnePixelNetwork(), 3)
    assert not task.state_dict()
