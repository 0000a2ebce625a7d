"""SegFormer: linear layers on the maps of strides 4 to 32, fused at stride 4."""

from dataclasses import dataclass

from segmentation_models_pytorch.decoders.segformer.decoder import SegformerDecoder
from torch import Tensor

from hires.models.backbone import Backbone
from hires.models.network import Channels
from hires.models.segmentation.network import SegmentationNetwork, SegmentationNetworkSettings, widths


@dataclass(frozen=True)
class SegformerSettings(SegmentationNetworkSettings):
    """Shape of a SegFormer's decoder (Xie et al. 2021)."""

    decoder_channels: Channels = 256

    def network(self, backbone: Backbone, num_classes: int) -> SegmentationNetwork:
        image, _, *channels = widths(backbone)
        decoder = FourLevelDecoder([image, 0, *channels], segmentation_channels=self.decoder_channels)
        return SegmentationNetwork(
            backbone=backbone, decoder=decoder, width=self.decoder_channels, num_classes=num_classes
        )


class FourLevelDecoder(SegformerDecoder):
    """Leaves out the map of stride 2 that convolutional backbones have: the decoder's output has stride 4."""

    def forward(self, features: list[Tensor]) -> Tensor:
        image, half, *others = features
        return super().forward([image, half[:, :0], *others])
