"""Backbones: any timm model as feature maps at known strides, with its stages by name."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from hires.interfaces import ConfigError
from hires.models import mix_transformer
from hires.models.features import create, feature_ends, is_plain, patch_size, stages_out_of_order
from hires.models.pyramid import SimpleFeaturePyramid
from hires.ops.windows import Size
from hires.settings import Bounds, Settings

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

    def build(self, image_size: Size | None = None) -> "Backbone":
        """The backbone with its weights loaded, for images of (height, width) pixels.

        `image_size` matters to models that are made for one size. Raises ConfigError when there is no such
        model or weights, or its feature maps do not fit.
        """
        net = create(
            self.name,
            image_size,
            pretrained=self.pretrained,
            weights=self.weights,
            in_channels=self.in_channels,
            drop_path_rate=self.drop_path_rate,
        )
        return Backbone(net, self.name, self.in_channels, self.freeze)


class Backbone(nn.Module):
    """A timm model that gives feature maps, finest first, always (B, C, H, W).

    `strides` are those of 2, 4, 8, 16, 32 that the model has; `channels` belong to them. A plain vision
    transformer gets a simple feature pyramid. `mean` and `std` are those of its pretraining, one per input
    channel, for pixels scaled to 0..1.
    """

    def __init__(self, net: Any, name: str, in_channels: int, frozen: tuple[str, ...] = ()):
        super().__init__()
        self.net, self.name, self.frozen = net, name, frozen
        reductions, widths = list(net.feature_info.reduction()), list(net.feature_info.channels())
        self.pyramid: nn.Module | None = None
        if is_plain(net):
            self.pyramid = SimpleFeaturePyramid(widths[-1], patch_size(net), channels := min(256, widths[-1]))
            self._picks, self.strides, self.channels = [-1], STRIDES[1:], (channels,) * 4
        else:
            self._picks = [max(i for i, r in enumerate(reductions) if r == s) for s in STRIDES if s in reductions]
            self.strides = tuple(reductions[i] for i in self._picks)
            self.channels = tuple(widths[i] for i in self._picks)
        if self.strides[-4:] != STRIDES[1:]:
            raise ConfigError(
                f"backbone.name: {name} has feature maps at strides {reductions}, needed: 4, 8, 16, 32"
            )
        config = net.model.pretrained_cfg
        self.fixed_size = bool(config.get("fixed_input_size"))  # whether it is made for one size of images
        self.mean, self.std = _spread(config["mean"], in_channels), _spread(config["std"], in_channels)
        self.freeze()

    def forward(self, x: Tensor) -> list[Tensor]:
        """(B, C, H, W), sides multiples of 32, to one (B, c, H / stride, W / stride) for each stride."""
        features = self.net(x)
        picked = [features[i] for i in self._picks]
        if self.pyramid is not None:
            return self.pyramid(picked[-1])
        return [
            _padded(feature, (x.shape[-2] // stride, x.shape[-1] // stride))
            for feature, stride in zip(picked, self.strides, strict=True)
        ]

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Names of the modules of each stage, in the order in which they run; `neck` is the pyramid."""
        stages = {stage: tuple(f"net.model.{name}" for name in names) for stage, names in self._stages().items()}
        return stages if self.pyramid is None else {**stages, "neck": ("pyramid",)}

    def _stages(self) -> dict[str, tuple[str, ...]]:
        if isinstance(self.net, mix_transformer.MixTransformer):
            return mix_transformer.stages()
        if (known := stages_out_of_order(self.net)) is not None:
            return known
        ends = feature_ends(self.net)
        if self.pyramid is None:
            ends = [ends[i] for i in self._picks]
        names = _sequence(self.net.model, ends)
        cuts = [self._cut(names, end) for end in ends]
        if self.pyramid is not None:
            cuts = _quarters(names, ends[-1])
        elif 2 not in self.strides:  # the stem ends where the first stage begins
            cuts.insert(0, cuts[0] - 1)
        parts = (tuple(names[start:end]) for start, end in pairwise([0, *cuts]))
        return dict(zip(STAGES, parts, strict=True))

    def _cut(self, names: list[str], end: str) -> int:
        """How many names come before the end of a stage; a block that goes on after it is not among them."""
        if end in names:
            return names.index(end) + 1
        around = [i for i, name in enumerate(names) if end.startswith(f"{name}.")]
        if not around or end not in dict(self.net.model.named_modules()):
            raise ConfigError(
                f"backbone.name: the stages of {self.name} cannot be told: timm says that one ends at {end!r}, "
                "which is no module of it; choose another backbone"
            )
        return around[0]

    def freeze(self) -> None:
        """Takes the frozen stages out of training; to be called again after layers were exchanged."""
        for module in self._frozen_modules():
            module.requires_grad_(False)
        if "stem" in self.frozen:  # position embeddings and class tokens belong to no module
            for parameter in self.net.model.parameters(recurse=False):
                parameter.requires_grad_(False)
        self.train(self.training)

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
    """Children of the model in order; lists that contain a feature's end, and whatever contains several of them,
    are replaced by their own children."""
    names: list[str] = []

    def expand(module: nn.Module, prefix: str) -> None:
        for child, part in module.named_children():
            name = f"{prefix}{child}"
            within = {end for end in ends if end.startswith(f"{name}.")}
            if len(within) > 1 or (within and isinstance(part, nn.Sequential | nn.ModuleList)):
                expand(part, f"{name}.")
            else:
                names.append(name)

    expand(model, "")
    return names


def _padded(feature: Tensor, size: Size) -> Tensor:
    """(B, C, h, w) with zeros around it, where a model's convolutions do not pad, so that it is of `size`."""
    down, right = size[0] - feature.shape[-2], size[1] - feature.shape[-1]
    if down <= 0 and right <= 0:
        return feature
    return F.pad(feature, (right // 2, right - right // 2, down // 2, down - down // 2))


def _quarters(names: list[str], last_block: str) -> list[int]:
    """Where the stem and each quarter of the blocks of a plain transformer end."""
    prefix = last_block.rpartition(".")[0]
    blocks = [i for i, name in enumerate(names) if name.startswith(f"{prefix}.")]
    return [blocks[0] + round(len(blocks) * quarter / 4) for quarter in range(5)]


def _spread(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    """Three colour values for another number of channels: their mean for each."""
    return tuple(values) if len(values) == channels else (sum(values) / len(values),) * channels
