"""UPerNet: pyramid pooling of the deepest map, and a feature pyramid whose levels are fused at stride 4."""

from dataclasses import dataclass

from segmentation_models_pytorch.decoders.upernet.decoder import UPerNetDecoder

from hires.models.backbone import Backbone
from hires.models.network import Channels
from hires.models.segmentation.network import SegmentationNetwork, SegmentationNetworkSettings, widths


@dataclass(frozen=True)
class UpernetSettings(SegmentationNetworkSettings):
    """Shape of a UPerNet (Xiao et al. 2018)."""

    decoder_channels: Channels = 256

    def network(self, backbone: Backbone, num_classes: int) -> SegmentationNetwork:
        decoder = UPerNetDecoder(widths(backbone), decoder_channels=self.decoder_channels)
        return SegmentationNetwork(
            backbone=backbone, decoder=decoder, width=self.decoder_channels, num_classes=num_classes
        )
