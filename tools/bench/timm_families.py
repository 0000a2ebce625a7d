"""The families of timm, a module each: which member to take, whether it is offered as a backbone, a network."""

import re
from typing import Any

import timm
import torch
from torch import nn

from hires.interfaces import ConfigError
from hires.models.backbone import STRIDES, BackboneSettings
from hires.models.pyramid import PATCHES
from hires.models.segmentation.fpn import FpnSettings

SIZES = (64, 96, 128, 192, 224, 256)  # pixels; the first that a model takes
CLASSES, IMAGES = 5, 2
BIG = re.compile(r"large|huge|giant|base|so\d+m|\dxl|xlarge|\d{3,}[bm](_|$)")
MADE_FOR_TESTS = "test_"


def members(family: str) -> list[str]:
    """Names of a family's models, by their number of parameters."""
    names = timm.list_models(module=family)
    small = [name for name in names if not BIG.search(name) and not name.startswith(MADE_FOR_TESTS)]
    return sorted(small or names, key=_parameters_of)


def _parameters_of(name: str) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in timm.create_model(name).parameters())


def why_not_offered(name: str) -> str | None:
    """Why timm does not offer a model as a backbone for dense prediction; None when it does.

    It has to have maps at strides 4, 8, 16, 32, or maps of one stride that a pyramid can be made from.
    """
    try:
        strides = _strides(name)
    except (AttributeError, AssertionError, RuntimeError, TypeError, ValueError) as error:
        return f"timm: {said(error)}"
    reason = f"feature maps at strides {', '.join(map(str, strides))}"
    if len(set(strides)) > 1:
        return None if set(STRIDES[1:]) <= set(strides) else reason
    try:
        return None if strides[0] in PATCHES or _strides(name, patch_size=16) else reason
    except TypeError:
        return f"{reason}, and patches of no other size"


def _strides(name: str, **arguments: int) -> list[int]:
    with torch.device("meta"):
        return list(timm.create_model(name, features_only=True, **arguments).feature_info.reduction())


def built(name: str) -> tuple[nn.Module, int]:
    """An FPN on a backbone in training mode, and the smallest size that it takes. Raises ConfigError."""
    refused: list[str] = []
    for size in SIZES:
        try:
            net = _network(name, size)
            with torch.no_grad():
                net(torch.rand(IMAGES, 3, size, size))
            return net, size
        except ConfigError as error:
            refused.append(str(error))
        except (RuntimeError, ValueError, AssertionError) as error:
            refused.append(f"{size} pixels: {said(error)}")
    raise ConfigError(refused[-1])


def _network(name: str, size: int) -> nn.Module:
    torch.manual_seed(0)
    try:
        backbone = _backbone(name, size, drop_path_rate=0.1)
    except ConfigError as error:
        if "drop_path_rate" not in str(error):  # not every model has it
            raise
        backbone = _backbone(name, size, drop_path_rate=None)
    backbone.stages()
    return FpnSettings(pyramid_channels=64, segmentation_channels=32).build(backbone, CLASSES).train()


def _backbone(name: str, size: int, drop_path_rate: float | None) -> Any:
    return BackboneSettings(name, pretrained=False, drop_path_rate=drop_path_rate).build((size, size))


def said(error: Exception) -> str:
    """The kind of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error) or 'without a message').splitlines()[0]}"
