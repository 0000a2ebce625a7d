"""Optimizers and schedules: groups, warm-up, the last step, wrong names."""

import pytest
import torch

from hires.engine.optimizer import OptimizerSettings, SchedulerSettings
from hires.interfaces import ConfigError
from hires.models.backbone import BackboneSettings
from hires.models.segmentation.unet import UnetSettings
from hires.tasks.segmentation import SegmentationSettings


def rates(settings, max_steps):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    schedule = settings.build(optimizer, max_steps)
    seen = []
    for step in range(max_steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step_update(step + 1)
    return seen


@pytest.mark.parametrize("name", ["cosine", "poly", "constant"])
def test_warm_up_rises_and_then_the_name_decides(name):
    arguments = {"decay_rate": 0.9} if name == "poly" else {}
    settings = SchedulerSettings(name=name, warmup_steps=10, warmup_lr=0.01, min_lr=0.001, arguments=arguments)
    seen = rates(settings, 100)
    assert seen[0] == pytest.approx(0.01)
    assert all(b > a for a, b in zip(seen[:9], seen[1:10], strict=True))
    assert max(seen) > 0.9
    assert seen[-1] == pytest.approx(1.0) if name == "constant" else seen[-1] < 0.05


def test_long_warm_up_is_cut_to_half():
    assert rates(SchedulerSettings(warmup_steps=1000), 20)[10] > 0.4


def test_wrong_names_list_what_is_allowed():
    with pytest.raises(ConfigError, match="name: got 'adamww', allowed: one of .* adamw"):
        OptimizerSettings(name="adamww")
    with pytest.raises(ConfigError, match="name: got 'plateau', allowed: cosine, poly"):
        SchedulerSettings(name="plateau")
    with pytest.raises(ConfigError, match="arguments.min_lr: no such argument"):
        rates(SchedulerSettings(arguments={"min_lr": 1}), 5)
    with pytest.raises(ConfigError, match="do not fit multistep"):
        rates(SchedulerSettings(name="multistep", arguments={"decay_milestones": 5}), 50)
    with pytest.raises(ConfigError, match="no such argument"):
        rates(SchedulerSettings(arguments={"milestones": [3]}), 5)


def test_layer_decay_and_weight_decay_groups():
    backbone = BackboneSettings(name="test_resnet", pretrained=False, freeze=("stem",)).build()
    network = UnetSettings(decoder_channels=(32, 16, 16, 8, 8)).build(backbone, 2)
    task = SegmentationSettings().build(network, 2)
    optimizer = OptimizerSettings(layer_decay=0.5, weight_decay=0.1).build(task)
    scales = {id(p): g["lr_scale"] for g in optimizer.param_groups for p in g["params"]}
    named = dict(task.named_parameters())
    early, late = (named[f"network.backbone.net.model.layer{i}.0.conv1.weight"] for i in (1, 4))
    head = named["network.head.0.weight"]
    assert scales[id(early)] < scales[id(late)] < scales[id(head)] == 1
    frozen = named["network.backbone.net.model.conv1.0.weight"]
    assert id(frozen) not in scales
    decays = {id(p): g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    assert decays[id(named["network.head.0.bias"])] == 0
    assert decays[id(head)] == 0.1
