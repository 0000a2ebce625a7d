"""U-Net: the decoder of segmentation-models-pytorch on any backbone, with an optional full-resolution branch."""

from dataclasses import dataclass
from typing import Annotated

from segmentation_models_pytorch.base import SegmentationHead
from segmentation_models_pytorch.base.initialization import initialize_decoder, initialize_head
from segmentation_models_pytorch.base.modules import Conv2dReLU
from segmentation_models_pytorch.decoders.unet.decoder import UnetDecoder
from torch import Tensor, nn

from hires.models.backbone import STRIDES, Backbone
from hires.models.norm import Norm, convert
from hires.settings import Bounds, Settings

Channels = Annotated[int, Bounds(1)]


@dataclass(frozen=True)
class UnetSettings(Settings):
    """Shape of a U-Net."""

    num_classes: Annotated[int, Bounds(2, 255)] | None = None
    norm: Norm = "batch"
    decoder_channels: tuple[Channels, Channels, Channels, Channels, Channels] = (256, 128, 64, 32, 16)
    full_resolution_skip: bool = False
    full_resolution_channels: Channels = 16

    def build(self, backbone: Backbone, num_classes: int, *, pretrained: bool = False) -> "Unet":
        """The network for a number of classes; `pretrained` says whether the backbone brings statistics."""
        fine = self.full_resolution_channels if self.full_resolution_skip else 0
        network = Unet(
            backbone=backbone,
            num_classes=num_classes,
            decoder_channels=self.decoder_channels,
            full_resolution_channels=fine,
        )
        for name, part in network.named_children():
            setattr(network, name, convert(part, self.norm, pretrained=pretrained and name == "backbone"))
        backbone.freeze()  # exchanged layers are new ones
        return network


class Unet(nn.Module):
    """Ronneberger et al. 2015, with the encoder exchanged for a backbone.

    (B, C, H, W) floats, sides multiples of 32, to logits (B, num_classes, H, W).
    """

    stride = 32

    def __init__(
        self,
        *,
        backbone: Backbone,
        num_classes: int,
        decoder_channels: tuple[int, ...],
        full_resolution_channels: int = 0,
    ):
        super().__init__()
        self.backbone = backbone
        self.full_resolution: nn.Module = NoBranch()
        if full_resolution_channels:
            self.full_resolution = full_resolution_branch(len(backbone.mean), full_resolution_channels)
        by_stride = dict(zip(backbone.strides, backbone.channels, strict=True))
        channels = [by_stride.get(stride, 0) for stride in STRIDES]
        # the decoder drops the first entry, which stands for the image in the library's own encoders
        self.decoder = UnetDecoder([0, full_resolution_channels, *channels], decoder_channels)
        self.head = SegmentationHead(decoder_channels[-1], num_classes, kernel_size=3)
        initialize_decoder(self.decoder)
        initialize_head(self.head)

    def forward(self, x: Tensor) -> Tensor:
        features = self.backbone(x)
        if 2 not in self.backbone.strides:
            features.insert(0, x.new_empty(x.shape[0], 0, x.shape[2] // 2, x.shape[3] // 2))
        fine = self.full_resolution(x)
        return self.head(self.decoder([fine, fine, *features]))

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Module names by stage."""
        stages = {stage: tuple(f"backbone.{n}" for n in names) for stage, names in self.backbone.stages().items()}
        blocks = tuple(f"decoder.blocks.{i}" for i in range(len(self.decoder.blocks)))
        return {**stages, "decoder": ("full_resolution", *blocks), "head": ("head",)}


class NoBranch(nn.Module):
    """The full-resolution branch that is not there: zero channels."""

    def forward(self, x: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], 0, *x.shape[2:])


def full_resolution_branch(in_channels: int, channels: int) -> nn.Sequential:
    """Two 3x3 convolutions at stride 1, for structures that stride 2 would blur."""
    branch = nn.Sequential(
        Conv2dReLU(in_channels, channels, kernel_size=3, padding=1),
        Conv2dReLU(channels, channels, kernel_size=3, padding=1),
    )
    initialize_decoder(branch)
    return branch
