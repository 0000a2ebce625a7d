"""What the segmentation networks share: a backbone, a decoder of segmentation-models-pytorch and a head."""

from dataclasses import dataclass

from segmentation_models_pytorch.base import SegmentationHead
from segmentation_models_pytorch.base.initialization import initialize_decoder, initialize_head
from torch import Tensor, nn

from hires.models.backbone import STRIDES, Backbone
from hires.models.network import Network, NetworkSettings


@dataclass(frozen=True)
class SegmentationNetworkSettings(NetworkSettings):
    """What every segmentation network has to be told. `multilabel` is read by the task and the data."""

    task = "segmentation"

    multilabel: bool = False


class SegmentationNetwork(Network):
    """(B, C, H, W) floats, sides multiples of 32, to logits (B, num_classes, h, w) at the decoder's stride."""

    def __init__(self, *, backbone: Backbone, decoder: nn.Module, width: int, num_classes: int):
        super().__init__(backbone)
        self.decoder = decoder
        self.head = SegmentationHead(width, num_classes, kernel_size=3)
        initialize_decoder(self.decoder)
        initialize_head(self.head)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.decoder(self.features(x)))

    def features(self, x: Tensor) -> list[Tensor]:
        """The image and one map for each of the strides 2 to 32; that of stride 2 may have no channels."""
        features = self.backbone(x)
        if 2 not in self.backbone.strides:
            features.insert(0, x.new_empty(x.shape[0], 0, x.shape[2] // 2, x.shape[3] // 2))
        return [x, *features]

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Module names by stage."""
        return {**super().stages(), "decoder": self.decoder_modules(), "head": ("head",)}

    def decoder_modules(self) -> tuple[str, ...]:
        """Names of the decoder's parts."""
        return tuple(f"decoder.{name}" for name, _ in self.decoder.named_children())


def widths(backbone: Backbone) -> list[int]:
    """Channels of the image, as the library counts them, and of the maps at strides 2 to 32 (0: no such map)."""
    by_stride = dict(zip(backbone.strides, backbone.channels, strict=True))
    return [len(backbone.mean), *(by_stride.get(stride, 0) for stride in STRIDES)]
