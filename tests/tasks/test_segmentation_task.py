"""The segmentation task: pixels are normalised once, predictions are probabilities, stages are modules."""

import pytest
import torch

from hires.interfaces import Batch, DataLimits
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.unet import UnetSettings
from hires.tasks.segmentation import Normalize, SegmentationSettings


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
