"""Backbones: any timm model as feature maps at known strides, with its stages by name."""

import difflib
import logging
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import timm
import torch
from torch import Tensor, nn

from hires.interfaces import ConfigError
from hires.settings import Bounds, Settings

log = logging.getLogger(__name__)

STRIDES = (2, 4, 8, 16, 32)
STAGES = ("stem", "stage1", "stage2", "stage3", "stage4")
Stage = Literal["stem", "stage1", "stage2", "stage3", "stage4"]


@dataclass(frozen=True)
class BackboneSettings(Settings):
    """Which timm model, with which weights."""

    name: str
    pretrained: bool = True
    weights: str | None = None
    in_channels: Annotated[int, Bounds(1)] = 3
    freeze: tuple[Stage, ...] = ()
    drop_path_rate: Annotated[float, Bounds(0, 1)] | None = None

    def build(self) -> "Backbone":
        """The backbone with its weights loaded. Raises ConfigError when there is no such model or weights."""
        return Backbone(_create(self), self.name, self.in_channels, self.freeze)


class Backbone(nn.Module):
    """A timm model that gives feature maps, finest first.

    `strides` are those of 2, 4, 8, 16, 32 that the model has; `channels` belong to them. `mean` and `std`
    are those of its pretraining, one per input channel, for pixels scaled to 0..1.
    """

    def __init__(self, net: Any, name: str, in_channels: int, frozen: tuple[str, ...] = ()):
        super().__init__()
        self.net, self.name, self.frozen = net, name, frozen
        reductions = list(net.feature_info.reduction())
        self._picks = [max(i for i, r in enumerate(reductions) if r == s) for s in STRIDES if s in reductions]
        self.strides = tuple(reductions[i] for i in self._picks)
        self.channels = tuple(net.feature_info.channels()[i] for i in self._picks)
        if self.strides[-4:] != STRIDES[1:]:
            raise ConfigError(
                f"backbone.name: {name} has feature maps at strides {reductions}, needed: 4, 8, 16, 32"
            )
        config = net.model.pretrained_cfg
        self.mean, self.std = _spread(config["mean"], in_channels), _spread(config["std"], in_channels)
        self.freeze()

    def forward(self, x: Tensor) -> list[Tensor]:
        """(B, C, H, W), sides multiples of 32, to one (B, c, H / stride, W / stride) for each stride."""
        features = self.net(x)
        return [features[i] for i in self._picks]

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Names of the modules of each stage, in the order in which they run."""
        infos = list(self.net.feature_info)
        ends = [infos[i]["module"] for i in self._picks]
        names = _sequence(self.net.model, ends)
        cuts = [names.index(end) + 1 for end in ends]
        if 2 not in self.strides:  # the stem ends where the first stage begins
            cuts.insert(0, names.index(ends[0]))
        return {
            stage: tuple(f"net.model.{name}" for name in names[start:end])
            for stage, (start, end) in zip(STAGES, pairwise([0, *cuts]), strict=True)
        }

    def freeze(self) -> None:
        """Takes the frozen stages out of training; to be called again after layers were exchanged."""
        for module in self._frozen_modules():
            module.requires_grad_(False)

    def train(self, mode: bool = True) -> "Backbone":
        """As of any module, but the statistics of frozen stages stay as they are."""
        super().train(mode)
        for module in self._frozen_modules():
            module.eval()
        return self

    def _frozen_modules(self) -> list[nn.Module]:
        stages = self.stages() if self.frozen else {}
        return [self.get_submodule(name) for stage in self.frozen for name in stages[stage]]

    def group_matcher(self, prefix: str, coarse: bool = False) -> dict[str, Any]:
        """timm's grouping of parameters into layers, for parameters whose names begin with `prefix`."""
        groups = self.net.model.group_matcher(coarse)
        return {key: _below(pattern, f"{prefix}net.model.") for key, pattern in groups.items()}


def _below(pattern: Any, prefix: str) -> Any:
    """A pattern, or a list of (pattern, depth), for names that begin with `prefix`."""
    if isinstance(pattern, str):
        return f"{re.escape(prefix)}(?:{pattern.replace('^', '')})"
    return [(_below(part, prefix), depth) for part, depth in pattern]


def _sequence(model: nn.Module, ends: list[str]) -> list[str]:
    """Children of the model in order, those that contain a feature's end replaced by their own children."""
    names: list[str] = []

    def expand(module: nn.Module, prefix: str) -> None:
        for child, part in module.named_children():
            name = f"{prefix}{child}"
            if any(end.startswith(f"{name}.") for end in ends):
                expand(part, f"{name}.")
            else:
                names.append(name)

    expand(model, "")
    return names


def _spread(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Three colour values for another number of channels: their mean for each."""
    return tuple(values) if len(values) == channels else (sum(values) / len(values),) * channels


def _create(settings: BackboneSettings) -> Any:
    if not timm.is_model(settings.name):
        raise ConfigError(_unknown(settings.name))
    arguments: dict[str, Any] = {"in_chans": settings.in_channels}
    if settings.drop_path_rate is not None:
        arguments["drop_path_rate"] = settings.drop_path_rate
    if settings.weights:
        return _with_weights_of_file(settings, arguments)
    net = _make(settings, pretrained=settings.pretrained, **arguments)
    _say_licence(net, settings)
    return net


def _make(settings: BackboneSettings, **arguments: Any) -> Any:
    try:
        return timm.create_model(settings.name, features_only=True, feature_cls="getter", **arguments)
    except Exception as error:  # the hub's client has a dozen exception types, without a common base
        raise ConfigError(_no_weights(settings, error)) from error


def _with_weights_of_file(settings: BackboneSettings, arguments: dict[str, Any]) -> Any:
    """timm loads a file leniently: made twice from the same random state, what stayed equal was not loaded."""
    if not Path(str(settings.weights)).is_file():
        raise ConfigError(f"backbone.weights: {settings.weights} is not a file")
    with torch.random.fork_rng():
        random = _make(settings, pretrained=False, **arguments).state_dict()
    net = _make(settings, pretrained=True, pretrained_cfg_overlay={"file": settings.weights}, **arguments)
    kernels = [name for name, value in net.state_dict().items() if value.ndim > 1]
    loaded = [name for name in kernels if not torch.equal(net.state_dict()[name], random[name])]
    log.info("%s: %d of %d weight tensors loaded", settings.weights, len(loaded), len(kernels))
    if len(loaded) < len(kernels) / 2:
        raise ConfigError(
            f"backbone.weights: {settings.weights} has only {len(loaded)} of {len(kernels)} weight tensors of "
            f"{settings.name}; it must hold timm's names. For a checkpoint of hires use init_from"
        )
    return net


def _no_weights(settings: BackboneSettings, error: Exception) -> str:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    if settings.weights:
        return f"backbone.weights: {settings.weights} does not load into {settings.name}: {reason}"
    if not settings.pretrained:
        return f"backbone.name: {settings.name} cannot be built: {reason}"
    return (
        f"backbone.pretrained: the weights of {settings.name} could not be downloaded ({reason}); "
        "set backbone.pretrained=false, or backbone.weights=FILE, or init_from=RUN"
    )


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, timm.list_models(), n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"backbone.name: timm has no model {name!r}{hint}"


def _say_licence(net: Any, settings: BackboneSettings) -> None:
    if not settings.pretrained:
        return
    licence = net.model.pretrained_cfg.get("license") or "not stated"
    log.info("Pretrained weights of %s: licence %s", settings.name, licence)
    if "nc" in re.split(r"[^a-z]+", licence.lower()) or "noncommercial" in licence.lower():
        log.warning("The licence of these weights (%s) forbids commercial use", licence)
