"""DeepLabV3+: dilated convolutions on the deepest map, fused with that of stride 4."""

from dataclasses import dataclass
from typing import Annotated

from segmentation_models_pytorch.decoders.deeplabv3.decoder import DeepLabV3PlusDecoder
from torch import Tensor
from torch.nn import functional as F

from hires.models.backbone import Backbone
from hires.models.network import Channels
from hires.models.segmentation.network import SegmentationNetwork, SegmentationNetworkSettings, widths
from hires.settings import Bounds

Rate = Annotated[int, Bounds(1)]


@dataclass(frozen=True)
class DeepLabV3PlusSettings(SegmentationNetworkSettings):
    """Shape of a DeepLabV3+ (Chen et al. 2018)."""

    decoder_channels: Channels = 256
    dilations: tuple[Rate, Rate, Rate] = (12, 24, 36)
    separable: bool = True
    dropout: Annotated[float, Bounds(0, 1)] = 0.5

    def network(self, backbone: Backbone, num_classes: int) -> SegmentationNetwork:
        decoder = Stride16Decoder(
            widths(backbone),
            encoder_depth=5,
            out_channels=self.decoder_channels,
            atrous_rates=self.dilations,
            output_stride=16,
            aspp_separable=self.separable,
            aspp_dropout=self.dropout,
        )
        return SegmentationNetwork(
            backbone=backbone, decoder=decoder, width=self.decoder_channels, num_classes=num_classes
        )


class Stride16Decoder(DeepLabV3PlusDecoder):
    """Takes backbones as they are: their deepest map is resampled to stride 16, where dilation would leave it."""

    def forward(self, features: list[Tensor]) -> Tensor:
        size = features[-2].shape[-2:]
        deepest = F.interpolate(features[-1], size=size, mode="bilinear", align_corners=False)
        return super().forward([*features[:-1], deepest])
