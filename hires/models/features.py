"""Makes the feature networks of timm (and mix transformers), for any image size where they can."""

import logging
from types import MethodType
from typing import Any

import timm
from timm.models.mobilenetv3 import MobileNetV3
from torch import Tensor, nn

from hires.models.mix_transformer import NAMES as MIX_TRANSFORMERS
from hires.models.mix_transformer import MixTransformer
from hires.models.pretrained import (
    announce_download,
    say_licence,
    unknown_name,
    why_not_built,
    with_weights_of_file,
)
from hires.models.pyramid import PATCHES
from hires.ops.out_of_memory import is_out_of_memory
from hires.ops.windows import Size

log = logging.getLogger(__name__)


_MODULES = {
    "Gemma4VitClassifier": {"blocks": "encoder.blocks"},
    "HighResolutionNet": {"stem": "act1", "stage1": "layer1", "stage4": "incre_modules"},
    "MobileNetV5": {"bn1": "conv_stem"},
    "MobileNetV5Encoder": {"bn1": "conv_stem"},
    "MultiScaleVit": {"block": "stages"},
}
"""Modules that end with a feature map, where timm calls them by other names: first parts of names by class."""


def create(
    name: str,
    image_size: Size | None,
    *,
    pretrained: bool,
    weights: str | None,
    in_channels: int,
    drop_path_rate: float | None,
) -> Any:
    """A module from images to feature maps, with `feature_info` and the `model` inside. Raises ConfigError."""
    is_mix = name in MIX_TRANSFORMERS
    if not is_mix and not timm.is_model(name):
        raise unknown_name(name)
    download = pretrained and not weights
    arguments: dict[str, Any] = {"in_chans": in_channels}
    if drop_path_rate is not None:
        arguments["drop_path_rate"] = drop_path_rate

    def make(file: str | None = None) -> Any:
        try:
            if is_mix:
                return MixTransformer(name, pretrained=download, file=file, **arguments)
            if file:
                overlay = {"file": file}
                return _from_timm(name, image_size, pretrained=True, pretrained_cfg_overlay=overlay, **arguments)
            return _from_timm(name, image_size, pretrained=download, **arguments)
        except Exception as error:  # the hub's client has a dozen exception types, without a common base
            if is_out_of_memory(error):
                raise
            raise why_not_built(name, download, file, error) from error

    if weights:
        return with_weights_of_file(name, weights, make)
    if download:
        announce_download(name)
    net = make()
    if download:
        say_licence(name, net.model.pretrained_cfg)
    return net


def feature_ends(net: Any) -> list[str]:
    """Names of the modules, seen from `net.model`, that end with each of the feature maps."""
    others = _MODULES.get(type(net.model).__name__, {})
    names = [info["module"].partition(".") for info in net.feature_info.get_dicts()]
    return [f"{others.get(first, first)}{dot}{rest}" for first, dot, rest in names]


def stages_out_of_order(net: Any) -> dict[str, tuple[str, ...]] | None:
    """Children of `net.model` by stage, where they are not made in the order in which they run; else None."""
    if type(net.model).__name__ != "CoaT":
        return None
    # encodings of positions are within the blocks too
    rows = [tuple(f"{kind}{i}" for kind in ("patch_embed", "serial_blocks")) for i in (1, 2, 3, 4)]
    last = ("parallel_blocks",) if net.model.parallel_blocks is not None else ()  # of all scales, after all others
    later = {"stage2": rows[1], "stage3": rows[2], "stage4": (*rows[3], *last)}
    return {"stem": rows[0][:1], "stage1": rows[0][1:], **later}


def is_plain(net: Any) -> bool:
    """Whether all feature maps have one stride, as those of a plain vision transformer."""
    reductions = list(net.feature_info.reduction())
    return len(reductions) > 1 and len(set(reductions)) == 1


def patch_size(net: Any) -> int:
    """Side of the patches of a plain vision transformer, pixels."""
    return int(net.feature_info.reduction()[-1])


def _from_timm(name: str, image_size: Size | None, **arguments: Any) -> Any:
    net = _made_for(name, image_size, **arguments)
    if is_plain(net) and patch_size(net) not in PATCHES:
        log.info("%s: patches of %d pixels become patches of 16", name, patch_size(net))
        net = _made_for(name, image_size, patch_size=16, **arguments)
    return net


def _made_for(name: str, image_size: Size | None, **arguments: Any) -> Any:
    """A model for one size only is made for `image_size`, and so that it takes others too where it can."""
    arguments = {"features_only": True, "feature_cls": "getter", **arguments}
    if not timm.get_pretrained_cfg_value(name, "fixed_input_size"):
        return _whatever_the_class(name, **arguments)
    if image_size:
        arguments["img_size"] = image_size
    for flexible, value in (("strict_img_size", False), ("dynamic_img_size", True)):
        try:
            return timm.create_model(name, **{flexible: value}, **arguments)
        except TypeError as error:
            if flexible not in str(error):
                raise
    return timm.create_model(name, **arguments)


def _whatever_the_class(name: str, **arguments: Any) -> Any:
    """A few models of timm do not let the class of their feature network be chosen."""
    try:
        return timm.create_model(name, **arguments)
    except TypeError as error:
        if "feature_cls" not in str(error):
            raise
    return _Wrapped(timm.create_model(name, **{**arguments, "feature_cls": None}))


class _Wrapped(nn.Module):
    """A feature network that is no wrapper around a model, in the shape of those that are."""

    def __init__(self, model: Any):
        super().__init__()
        self.model, self.feature_info = model, model.feature_info
        model.group_matcher = MethodType(MobileNetV3.group_matcher, model)  # all of these are such networks

    def forward(self, x: Tensor) -> list[Tensor]:
        features: list[Tensor] = self.model(x)
        return features
