"""U-Net: the decoder of segmentation-models-pytorch on any backbone, with an optional full-resolution branch."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from segmentation_models_pytorch.base.initialization import initialize_decoder
from segmentation_models_pytorch.base.modules import Conv2dReLU
from segmentation_models_pytorch.decoders.unet.decoder import UnetDecoder, UnetDecoderBlock
from torch import Tensor, nn
from torch.nn import functional as F

from hires.models.backbone import Backbone
from hires.models.network import Channels
from hires.models.segmentation.network import SegmentationNetwork, SegmentationNetworkSettings, widths


@dataclass(frozen=True)
class UnetSettings(SegmentationNetworkSettings):
    """Shape of a U-Net."""

    decoder_channels: tuple[Channels, Channels, Channels, Channels, Channels] = (256, 128, 64, 32, 16)
    full_resolution_skip: bool = False
    full_resolution_channels: Channels = 16

    def network(self, backbone: Backbone, num_classes: int) -> "Unet":
        return Unet(
            backbone=backbone,
            num_classes=num_classes,
            decoder_channels=self.decoder_channels,
            full_resolution_channels=self.full_resolution_channels if self.full_resolution_skip else 0,
        )


class Unet(SegmentationNetwork):
    """Ronneberger et al. 2015, with the encoder exchanged for a backbone; logits at stride 1."""

    def __init__(
        self,
        *,
        backbone: Backbone,
        num_classes: int,
        decoder_channels: tuple[int, ...],
        full_resolution_channels: int = 0,
    ):
        branch: nn.Module = NoBranch()
        if full_resolution_channels:
            branch = full_resolution_branch(len(backbone.mean), full_resolution_channels)
        # the decoder drops the first entry, which stands for the image in the library's own encoders
        channels = [0, full_resolution_channels, *widths(backbone)[1:]]
        decoder = UnetDecoder(channels, decoder_channels)
        for block in decoder.blocks:
            block.__class__ = Block
        super().__init__(backbone=backbone, decoder=decoder, width=decoder_channels[-1], num_classes=num_classes)
        self.full_resolution = branch

    def features(self, x: Tensor) -> list[Tensor]:
        image, *features = super().features(x)
        fine = self.full_resolution(image)
        return [fine, fine, *features]

    def decoder_modules(self) -> tuple[str, ...]:
        blocks = tuple(f"decoder.blocks.{i}" for i in range(len(self.decoder.blocks)))  # type: ignore[arg-type]
        return ("full_resolution", *blocks)


class Block(UnetDecoderBlock):
    """The library's block, to the same bits, in less memory."""

    def forward(
        self, feature_map: Tensor, target_height: int, target_width: int, skip_connection: Tensor | None = None
    ) -> Tensor:
        """Enlarges (B, C, h, w) to the target's height and width and joins the skip of that size."""
        # Repeated pixels need no float32, which autocast would bring them to; nor is a skip of no channels copied.
        with without_autocast(feature_map.device.type):
            x = F.interpolate(feature_map, size=(target_height, target_width), mode=self.interpolation_mode)
        if skip_connection is not None and skip_connection.shape[1]:
            x = torch.cat([x, skip_connection], dim=1)
            x = self.attention1(x)
        return self.attention2(self.conv2(self.conv1(x)))


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """A context in which operations keep their types; shapes alone, on `meta`, have no autocast."""
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


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
