"""Exchanges the BatchNorm layers of a module for others."""

import copy
from typing import Literal

from timm.layers import GroupNormAct, convert_sync_batchnorm, freeze_batch_norm_2d
from timm.layers.norm_act import BatchNormAct2d
from torch import nn

Norm = Literal["batch", "group", "frozen", "sync"]


def convert(module: nn.Module, norm: Norm, *, pretrained: bool = False) -> nn.Module:
    """The module with its BatchNorm layers exchanged in place (the module itself when it is one).

    `group` depends on no other sample, so that the micro-batch cannot change it. `frozen` keeps pretrained
    statistics and scales; layers without any (`pretrained` false) become group instead.
    """
    if norm == "batch":
        return module
    if norm == "sync":
        return convert_sync_batchnorm(module)
    if norm == "frozen" and pretrained:
        return freeze_batch_norm_2d(module)
    return _to_group(module)


def _to_group(module: nn.Module) -> nn.Module:
    if isinstance(module, nn.BatchNorm2d):
        return _group_norm(module)
    for name, child in module.named_children():
        setattr(module, name, _to_group(child))
    return module


def _group_norm(norm: nn.BatchNorm2d) -> nn.Module:
    groups = group_count(norm.num_features)
    if isinstance(norm, BatchNormAct2d):
        new: nn.Module = GroupNormAct(norm.num_features, groups, eps=norm.eps)
        new.drop, new.act = copy.deepcopy(norm.drop), copy.deepcopy(norm.act)
    else:
        new = nn.GroupNorm(groups, norm.num_features, eps=norm.eps)
    if norm.affine:
        new.weight.data.copy_(norm.weight.data)  # type: ignore[operator]
        new.bias.data.copy_(norm.bias.data)  # type: ignore[operator]
    return new


def group_count(channels: int) -> int:
    """The most groups, 32 at most, that divide the channels and hold four or more of them (or one group)."""
    return next((g for g in range(min(32, channels // 4), 0, -1) if channels % g == 0), 1)
