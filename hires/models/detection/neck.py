"""The feature pyramid between a backbone and the heads of a detector."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import FeaturePyramidNetwork

from hires.interfaces import ConfigError
from hires.models.backbone import Backbone
from hires.models.network import Channels
from hires.settings import Bounds, SettingError, Settings

TOP = 5  # the backbone's deepest level
Level = Annotated[int, Bounds(1, TOP)]


@dataclass(frozen=True)
class NeckSettings(Settings):
    """Which levels the heads see: level l has stride 2^l."""

    levels: tuple[Level, ...] = (3, 4, 5)  # of the backbone; deeper ones add their context to them
    extra_levels: Annotated[int, Bounds(0, 4)] = 2  # made above them, each at half the resolution
    extra: Literal["conv", "pool"] = "conv"
    channels: Channels = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.levels or list(self.levels) != list(range(self.levels[0], self.levels[0] + len(self.levels))):
            raise SettingError("levels", list(self.levels), "levels in a row, for example [2, 3, 4, 5]")
        if self.extra_levels and self.levels[-1] != TOP:
            raise SettingError("extra_levels", self.extra_levels, f"0 unless neck.levels reach {TOP}")

    def build(self, backbone: Backbone) -> "Neck":
        """The neck of a backbone. Raises ConfigError for a level that it does not have."""
        return Neck(
            backbone, self.levels, extra_levels=self.extra_levels, extra=self.extra, channels=self.channels
        )


class Neck(nn.Module):
    """A feature pyramid (Lin et al. 2017): maps of all strides of a backbone to maps of `strides`, finest first.

    It begins at the backbone's deepest level, whichever the heads see. Extra levels are those of RetinaNet,
    strided convolutions of the top level, or every other pixel of it.
    """

    def __init__(
        self, backbone: Backbone, levels: tuple[int, ...], *, extra_levels: int, extra: str, channels: int
    ):
        super().__init__()
        missing = [level for level in levels if 2**level not in backbone.strides]
        if missing:
            has = [stride.bit_length() - 1 for stride in backbone.strides]
            raise ConfigError(f"model.neck.levels: {backbone.name} has no level {missing[0]}, allowed: {has}")
        self._first, self.channels = backbone.strides.index(2 ** levels[0]), channels
        self.strides = tuple(2 ** (levels[0] + step) for step in range(len(levels) + extra_levels))
        self.pyramid = FeaturePyramidNetwork(list(backbone.channels[self._first :]), channels)
        for unseen in range(len(levels), len(self.pyramid.layer_blocks)):
            self.pyramid.layer_blocks[unseen] = nn.Identity()
        self._seen = len(levels)
        convs = [nn.Conv2d(channels, channels, 3, stride=2, padding=1) for _ in range(extra_levels)]
        for conv in convs:
            nn.init.kaiming_uniform_(conv.weight, a=1)
            nn.init.constant_(conv.bias, 0)  # type: ignore[arg-type]
        pools = [nn.MaxPool2d(1, stride=2) for _ in range(extra_levels)]
        self.extra = nn.ModuleList(convs if extra == "conv" else pools)

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        named = OrderedDict((str(i), level) for i, level in enumerate(features[self._first :]))
        maps = list(self.pyramid(named).values())[: self._seen]
        for step, layer in enumerate(self.extra):
            convolved = step and isinstance(layer, nn.Conv2d)
            maps.append(layer(F.relu(maps[-1]) if convolved else maps[-1]))
        return maps

    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """(height, width) of every level for an image whose sides are multiples of 32."""
        # ONNX divides integers towards zero, so that only what is positive is rounded
        return [((height + stride - 1) // stride, (width + stride - 1) // stride) for stride in self.strides]
