"""Whole training steps of every kind of task: a policy changes no bit, and `full` keeps less."""

import copy
import importlib
from functools import partial

import pytest
import torch
from blocks import assert_same

from hires.engine.step import train_step
from hires.interfaces import DataLimits, Sample
from hires.losses import chunks
from hires.losses.dense import FcosLossSettings, RetinaNetLossSettings
from hires.losses.segmentation import LossSettings
from hires.losses.two_stage import FasterRcnnLossSettings, MaskRcnnLossSettings
from hires.memory.checkpointing import apply_policies
from hires.memory.meter import LivePeak, tensors_of
from hires.memory.units import find_units
from hires.models.backbone import BackboneSettings
from hires.models.detection.neck import NeckSettings
from hires.tasks.detection import DetectionSettings
from hires.tasks.segmentation import SegmentationSettings

ALL_LOSSES = LossSettings(cross_entropy=1, dice=1, focal=1, tversky=1, boundary_weight=2.0)
TASKS = {
    "unet": ("segmentation.unet.UnetSettings", SegmentationSettings()),
    "fpn": ("segmentation.fpn.FpnSettings", SegmentationSettings(loss=ALL_LOSSES)),
    "upernet": ("segmentation.upernet.UpernetSettings", SegmentationSettings(loss=LossSettings(lovasz=1))),
    "deeplabv3plus": ("segmentation.deeplabv3plus.DeepLabV3PlusSettings", SegmentationSettings()),
    "segformer": ("segmentation.segformer.SegformerSettings", SegmentationSettings()),
    "fcos": ("detection.fcos.FcosSettings", DetectionSettings(loss=FcosLossSettings())),
    "retinanet": ("detection.retinanet.RetinaNetSettings", DetectionSettings(loss=RetinaNetLossSettings())),
    "faster_rcnn": ("detection.faster_rcnn.FasterRcnnSettings", DetectionSettings(loss=FasterRcnnLossSettings())),
    "mask_rcnn": (
        "detection.mask_rcnn.MaskRcnnSettings",
        DetectionSettings(loss=MaskRcnnLossSettings(), instance_masks=True),
    ),
}


def make_task(name, backbone="resnet10t"):
    torch.manual_seed(0)
    path, settings = TASKS[name]
    module, _, kind = path.rpartition(".")
    kind = getattr(importlib.import_module(f"hires.models.{module}"), kind)
    # the bfloat16 convolution of a map of one pixel has undefined gradients in PyTorch: no second extra level
    network = kind(neck=NeckSettings(extra_levels=1)) if path.startswith("detection") else kind()
    built = BackboneSettings(name=backbone, pretrained=False, drop_path_rate=0.2).build((64, 64))
    return settings.build(network.build(built, 4), 4).train()


def samples_of(task, count=4):
    batch = task.example_batch(count, (64, 64), DataLimits(max_objects=5))
    return [Sample(image, target, "") for image, target in zip(batch.images, batch.targets, strict=True)]


def trained(task, policy, steps=2):
    task = copy.deepcopy(task)
    apply_policies(task, find_units(task, task.stages()), policy)
    samples, optimizer = samples_of(task), torch.optim.AdamW(task.parameters(), lr=1e-3)
    torch.manual_seed(3)
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    contexts = [{}] * (steps - 1) + [{"autocast": autocast}]
    losses = [train_step(task, samples, optimizer, micro_batch_size=2, **more) for more in contexts]
    return (
        losses,
        task.state_dict(),
        dict(task.named_buffers()),
        optimizer.state_dict()["state"],
        torch.get_rng_state(),
    )


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n == "mask_rcnn" else []) for n in TASKS]
)
def test_policies_change_nothing(name, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", 4 * 64 * 2 * 16)  # four chunks of 16 rows
    task = make_task(name)
    expected = trained(task, "none")
    stages = [stage for stage in task.stages() if stage in ("neck", "decoder")]
    for policy in ("selective", "full", {"stage2": "full", "loss": "full"} | dict.fromkeys(stages, "full@stage")):
        assert_same(expected, trained(task, policy))


@pytest.mark.parametrize("name", ["fpn", "fcos", "mask_rcnn"])
def test_full_keeps_less(name):
    task, kept = make_task(name), {}
    batch = task.example_batch(2, (128, 128), DataLimits(max_objects=5))
    for policy in ("none", "selective", "full"):
        apply_policies(task, find_units(task, task.stages()), policy)
        with LivePeak(tensors_of(task)) as meter:
            losses = task(batch, task.normalizers(batch.targets))
            kept[policy] = meter.live - meter.start
        del losses
    assert kept["full"] < 0.5 * kept["none"]
    assert kept["selective"] < 0.98 * kept["none"]


def test_the_loss_in_chunks_keeps_less(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", 4 * 128 * 2 * 16)
    task, kept = make_task("fpn"), {}
    batch = task.example_batch(2, (128, 128), DataLimits())
    for policy in ("none", "full"):
        apply_policies(task, find_units(task, task.stages()), {"loss": policy})
        with LivePeak(tensors_of(task)) as meter:
            losses = task(batch, task.normalizers(batch.targets))
            kept[policy] = meter.live
        del losses
    full_resolution = 2 * 4 * 128 * 128 * 4  # bytes of float32 logits
    assert kept["none"] - kept["full"] > full_resolution
