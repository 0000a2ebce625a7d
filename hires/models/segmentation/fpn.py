"""FPN: a feature pyramid whose levels are summed at stride 4."""

from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Literal

import torch
from segmentation_models_pytorch.decoders.fpn.decoder import FPNDecoder, MergeBlock
from torch import Tensor

from hires.models.backbone import Backbone
from hires.models.network import Channels
from hires.models.segmentation.network import SegmentationNetwork, SegmentationNetworkSettings, widths
from hires.settings import Bounds, SettingError


@dataclass(frozen=True)
class FpnSettings(SegmentationNetworkSettings):
    """Shape of an FPN (Kirillov et al. 2019, "Panoptic feature pyramid networks")."""

    pyramid_channels: Channels = 256
    segmentation_channels: Channels = 128
    dropout: Annotated[float, Bounds(0, 1)] = 0.2
    merge: Literal["add", "cat"] = "add"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segmentation_channels % 32:  # the decoder's own norms have 32 groups
            raise SettingError("segmentation_channels", self.segmentation_channels, "multiples of 32")

    def network(self, backbone: Backbone, num_classes: int) -> SegmentationNetwork:
        decoder = FPNDecoder(
            widths(backbone),
            pyramid_channels=self.pyramid_channels,
            segmentation_channels=self.segmentation_channels,
            dropout=self.dropout,
            merge_policy=self.merge,
        )
        decoder.merge.__class__ = Merge
        return SegmentationNetwork(
            backbone=backbone, decoder=decoder, width=decoder.out_channels, num_classes=num_classes
        )


class Merge(MergeBlock):
    """The library's, to the same bits, without a copy of all levels."""

    def forward(self, x: list[Tensor]) -> Tensor:
        """The sum of maps (B, C, h, w), added up in float32, or all of their channels."""
        if self.policy != "add":
            return super().forward(x)
        kind = reduce(torch.promote_types, (each.dtype for each in x))
        total = x[0].to(torch.promote_types(kind, torch.float32)) + x[1]
        for each in x[2:]:
            total += each
        return total.to(kind)
