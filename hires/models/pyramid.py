"""Feature maps at four strides from the one of a plain vision transformer."""

from timm.layers import LayerNorm2d
from torch import Tensor, nn

STRIDES = PATCHES = (4, 8, 16, 32)
"""Strides of the levels, and patch sizes, pixels, from which the pyramid can be made."""


class SimpleFeaturePyramid(nn.Module):
    """The simple feature pyramid of ViTDet (Li et al. 2022, "Exploring plain vision transformer backbones").

    (B, C, h, w) at stride `patch` to (B, channels, ., .) at strides 4, 8, 16, 32: transposed convolutions
    double the resolution, max pooling halves it.
    """

    def __init__(self, in_channels: int, patch: int, channels: int):
        super().__init__()
        self.levels = nn.ModuleList(_level(in_channels, patch, stride, channels) for stride in STRIDES)

    def forward(self, x: Tensor) -> list[Tensor]:
        return [level(x) for level in self.levels]


def _level(in_channels: int, patch: int, stride: int, channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    width = in_channels
    while patch > stride:
        half = max(channels, width // 2)
        layers += [nn.ConvTranspose2d(width, half, kernel_size=2, stride=2), LayerNorm2d(half), nn.GELU()]
        width, patch = half, patch // 2
    if patch < stride:
        layers.append(nn.MaxPool2d(stride // patch))
    layers += [nn.Conv2d(width, channels, kernel_size=1, bias=False), LayerNorm2d(channels)]
    layers += [nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False), LayerNorm2d(channels)]
    return nn.Sequential(*layers)
