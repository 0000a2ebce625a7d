"""Detection as a task: split batches, examples, stages, views of an image put together."""

import numpy as np
import pytest
import torch

from hires.engine.step import accumulate, train_step
from hires.interfaces import ConfigError, DataLimits, Sample, View, Window
from hires.losses.dense import FcosLossSettings, RetinaNetLossSettings
from hires.losses.two_stage import FasterRcnnLossSettings, MaskRcnnLossSettings
from hires.models.backbone import BackboneSettings
from hires.models.detection.anchors import AnchorSettings
from hires.models.detection.faster_rcnn import FasterRcnnSettings
from hires.models.detection.fcos import FcosSettings
from hires.models.detection.mask_rcnn import MaskRcnnSettings
from hires.models.detection.neck import NeckSettings
from hires.models.detection.network import DenseNetwork
from hires.models.detection.proposals import ProposalSettings
from hires.models.detection.regions import RegionSettings
from hires.models.detection.retinanet import RetinaNetSettings
from hires.ops.boxes import Detections
from hires.tasks.detection import DetectionSettings

NECK = NeckSettings(levels=(2, 3, 4, 5), extra_levels=1, channels=32)
# FCOS's 32 groups should have values enough to normalise
WIDE = NeckSettings(levels=(2, 3, 4, 5), extra_levels=0, channels=64)
TWO_STAGE = {
    "neck": NeckSettings(levels=(2, 3, 4, 5), extra_levels=1, extra="pool", channels=32),
    "proposals": ProposalSettings(candidates=60, proposals=50, samples=40),
    "regions": RegionSettings(hidden=32, samples=30),
}


def fcos():
    return FcosSettings(norm="group", neck=WIDE, head_convs=1), FcosLossSettings()


def retinanet():
    return RetinaNetSettings(norm="group", neck=NECK), RetinaNetLossSettings()


def faster_rcnn():
    return FasterRcnnSettings(norm="group", **TWO_STAGE), FasterRcnnLossSettings()


def mask_rcnn():
    return MaskRcnnSettings(norm="group", mask_convs=1, mask_channels=16, **TWO_STAGE), MaskRcnnLossSettings()


MODELS = {"fcos": fcos, "retinanet": retinanet, "faster_rcnn": faster_rcnn, "mask_rcnn": mask_rcnn}


def make_task(model):
    torch.manual_seed(0)
    network_settings, loss = model()
    network = network_settings.build(BackboneSettings(name="test_resnet", pretrained=False).build(), 4)
    for parameter in network.parameters():
        if not parameter.any():  # zero-initialised scales would hide the gradients of their blocks
            torch.nn.init.normal_(parameter, std=0.3)
    return DetectionSettings(loss=loss, instance_masks=model is mask_rcnn).build(network, 4)


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def task(request):
    return make_task(request.param)


@pytest.fixture
def samples(task):
    """Eight samples with very different numbers of objects, some of them ignored."""
    batch = task.example_batch(8, (64, 64), DataLimits(max_objects=24))
    targets = []
    for index, target in enumerate(batch.targets):
        few = {name: value[: 3 * index] for name, value in target.items() if name != "size"}
        targets.append({**few, "ignored": torch.arange(len(few["labels"])) % 5 == 4, "size": target["size"]})
    return [Sample(i, t, "") for i, t in zip(batch.images, targets, strict=True)]


def gradients(task, samples, size):
    task.zero_grad()
    torch.manual_seed(0)  # two-stage detectors draw boxes, in each image by itself
    losses = accumulate(task, samples, micro_batch_size=size)
    return losses, {name: p.grad.clone() for name, p in task.named_parameters()}


@pytest.mark.parametrize("size", [4, 3, 1])
def test_gradient_does_not_depend_on_the_micro_batch(task, samples, size):
    # rounding moves proposals by their last bits, and with them what their regions are compared to
    tolerance = 1e-5 if isinstance(task.network, DenseNetwork) else 1e-3
    losses, whole = gradients(task, samples, 8)
    split_losses, split = gradients(task, samples, size)
    for name, gradient in whole.items():
        assert gradient.any(), name
        assert (split[name] - gradient).norm() <= tolerance * gradient.norm(), name
    for name, value in losses.items():
        torch.testing.assert_close(split_losses[name], value, rtol=tolerance, atol=1e-6)


def test_mean_of_mean_losses_would_be_wrong():
    """What torchvision's FCOS does: each batch by its own objects. Halves of a batch then weigh the same."""
    task = make_task(MODELS["fcos"])
    whole = task.example_batch(2, (64, 64), DataLimits(max_objects=30))
    few = {name: value[:1] if name != "size" else value for name, value in whole.targets[1].items()}
    samples = [Sample(whole.images[0], whole.targets[0], ""), Sample(whole.images[1], few, "")]
    together = sum(accumulate(task, samples, micro_batch_size=1).values())
    apart = sum(sum(accumulate(task, [sample], micro_batch_size=1).values()) for sample in samples) / 2
    assert abs(apart - together) > 0.005 * together


def test_training_lowers_the_loss(task, samples):
    optimizer = torch.optim.AdamW(task.parameters(), lr=1e-3)
    totals = [sum(train_step(task, samples, optimizer, micro_batch_size=8).values()) for _ in range(15)]
    assert totals[-1] < 0.9 * totals[0]


def test_example_reaches_the_limits(task):
    batch = task.example_batch(2, (64, 96), DataLimits(max_objects=50))
    assert batch.images.shape == (2, 3, 64, 96)
    for target in batch.targets:
        boxes = target["boxes"]
        assert boxes.shape == (50, 4)
        assert (boxes[:, 2:] > boxes[:, :2]).all()
        assert (boxes >= 0).all()
        assert (boxes[:, 2:] <= torch.tensor([96, 64])).all()


def test_masks_of_an_example_fill_its_boxes():
    batch = make_task(mask_rcnn).example_batch(1, (64, 96), DataLimits(max_objects=20))
    masks, boxes = batch.targets[0]["masks"], batch.targets[0]["boxes"]
    assert masks.shape == (20, 64, 96)
    assert masks.dtype == torch.uint8
    sides = boxes[:, 2:].ceil() - boxes[:, :2].floor()
    assert torch.equal(masks.sum((1, 2)), sides.prod(1).long())


def test_masks_cannot_be_learnt_without_masks():
    settings = DetectionSettings(loss=MaskRcnnLossSettings(), instance_masks=True)
    with pytest.raises(ConfigError, match=r"^model: .* with data\.instance_masks=true"):
        settings.build(None, 4, Objects())


class Objects:
    """Twenty boxes of 12 x 48 pixels in each of two images, and one of all of it that does not count."""

    instance_masks = False

    def __len__(self):
        return 2

    def objects(self, index):
        boxes = np.tile(np.float32([[5, 5, 17, 53]]), (21, 1))
        boxes[20] = [0, 0, 512, 512]
        return {"boxes": boxes, "ignored": np.arange(21) == 20}


@pytest.mark.parametrize("fit", [True, False])
def test_anchors_are_fitted_to_what_is_learnt(fit):
    backbone = BackboneSettings(name="test_resnet", pretrained=False).build()
    network = RetinaNetSettings(neck=NECK, anchors=AnchorSettings(fit=fit)).build(backbone, 4)
    settings = DetectionSettings(loss=RetinaNetLossSettings())
    before = network.anchors.cells(0).clone()
    settings.build(network, 4, None)
    assert torch.equal(network.anchors.cells(0), before)
    settings.build(network, 4, Objects())
    shape = torch.tensor([12.0, 48.0]).expand(9, 2)
    fitted = [torch.allclose(cells[:, 2:] * 2, shape) for cells in map(network.anchors.cells, range(5))]
    assert any(fitted) == fit


def test_masks_are_scored():
    settings = DetectionSettings(loss=MaskRcnnLossSettings(), instance_masks=True)
    assert "mask_AP" in settings.evaluator(("a",)).compute()


def test_an_example_without_objects_trains(task):
    samples = [Sample(i, t, "") for i, t in zip(*task.example_batch(2, (64, 64), DataLimits()), strict=True)]
    losses, _ = gradients(task, samples, 2)
    assert all(torch.isfinite(value) for value in losses.values())


def test_stages_are_modules_and_cover_every_parameter(task):
    stages = task.stages()
    assert list(stages) == ["stem", "stage1", "stage2", "stage3", "stage4", "neck", "head", "loss"]
    named = [task.get_submodule(name) for names in stages.values() for name in names]
    covered = {id(p) for module in named for p in module.parameters()}
    unused = {n for n, p in task.named_parameters() if id(p) not in covered}
    assert not unused


def test_predictions_are_boxes_in_the_image(task):
    found = task.eval().predict(task.example_batch(2, (64, 96), DataLimits()))
    assert len(found) == 2
    for detections in found:
        assert detections.extent == (64, 96)
        assert len(detections.boxes) == len(detections.scores) == len(detections.labels) <= 300


def test_windows_of_an_image_become_one_part(task):
    def seen(x):
        boxes = torch.tensor([[x, 8.0, x + 10, 30.0]])
        return Detections(boxes, torch.tensor([0.9]), torch.tensor([2]), (64, 64))

    views = [View(Window(0, x, 64, 64), 64, 64) for x in (0, 32)]
    (part,) = task.stitch((64, 96), [(views[0], seen(40.0)), (views[1], seen(8.0))])
    assert part.boxes.tolist() == [[40, 8, 50, 30]]
    assert part.labels.tolist() == [2]
    assert part.extent == (64, 96)
