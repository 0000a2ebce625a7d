"""Backbones of networks whose memory in training others have published, rebuilt for their shapes.

Each gives a list of maps. Activations are in place where they are in the originals.
"""

import timm
import torch
import torchvision
from timm.layers import DropPath, LayerNorm2d
from torch import Tensor, nn
from torch.nn import functional as F


def conv_bn_relu(
    inputs: int, outputs: int, kernel: int = 1, *, stride: int = 1, dilation: int = 1, groups: int = 1
) -> nn.Sequential:
    convolution = nn.Conv2d(
        inputs, outputs, kernel, stride, dilation * (kernel // 2), dilation, groups, bias=False
    )
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def resized(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, like.shape[-2:], mode="bilinear", align_corners=False)


class ResNet(nn.Module):
    """The maps of the four stages; `deep_stem` has three 3x3 convolutions for one of 7x7 (ResNetV1c)."""

    def __init__(self, depth: int, *, dilated: bool = False, deep_stem: bool = True):
        super().__init__()
        net = torchvision.models.get_model(
            f"resnet{depth}", weights=None, replace_stride_with_dilation=[False, dilated, dilated]
        )
        plain = [net.conv1, net.bn1, net.relu]
        deep = [conv_bn_relu(3, 32, 3, stride=2), conv_bn_relu(32, 32, 3), conv_bn_relu(32, 64, 3)]
        self.stem = nn.Sequential(*(deep if deep_stem else plain), net.maxpool)
        self.stages = nn.ModuleList([net.layer1, net.layer2, net.layer3, net.layer4])

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.stem(x)
        return [x := stage(x) for stage in self.stages]


class Unet(nn.Module):
    """UNet-S5-D16: five levels of two convolutions, and up again by interpolation; all maps on the way up."""

    def __init__(self, base: int = 64):
        super().__init__()
        widths = [base * 2**level for level in range(5)]
        self.down = nn.ModuleList(self._block(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.steps = nn.ModuleList(
            nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), conv_bn_relu(2 * w, w)
            )
            for w in widths[:-1]
        )
        self.up = nn.ModuleList(self._block(2 * width, width) for width in widths[:-1])
        self.pool = nn.MaxPool2d(2)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(conv_bn_relu(inputs, outputs, 3), conv_bn_relu(outputs, outputs, 3))

    def forward(self, x: Tensor) -> list[Tensor]:
        skips: list[Tensor] = []
        for level, block in enumerate(self.down):
            skips.append(x := block(self.pool(x) if level else x))
        outs = [x]
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat([skips[level], self.steps[level](x)], 1))
            outs.append(x)
        return outs


class ConvNext(nn.Module):
    """The maps of the four stages, each normalised."""

    def __init__(self, name: str, drop_path: float):
        super().__init__()
        net = timm.create_model(name, drop_path_rate=drop_path, num_classes=0)
        self.stem, self.stages = net.stem, net.stages
        self.norms = nn.ModuleList(LayerNorm2d(info["num_chs"]) for info in net.feature_info)

    def forward(self, x: Tensor) -> list[Tensor]:
        x = self.stem(x)
        return [norm(x := stage(x)) for stage, norm in zip(self.stages, self.norms, strict=True)]


class Attention(nn.Module):
    """Attention with all weights in memory; keys and values come from a map `reduction` times smaller."""

    def __init__(self, width: int, heads: int, reduction: int = 1):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.reduce = nn.Conv2d(width, width, reduction, reduction) if reduction > 1 else None
        self.norm = nn.LayerNorm(width) if reduction > 1 else None

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        query, key, value = self._projected(x, size)
        query = query * self.scale
        query, key, value = (self._by_head(part) for part in (query, key, value))
        weights = F.softmax(torch.bmm(query, key.transpose(1, 2)), -1)
        found = torch.bmm(weights, value).transpose(0, 1).reshape(x.shape[1], *x.shape[::2])
        weights.unflatten(0, (-1, self.heads)).mean(1)
        return self.out(found).transpose(0, 1)

    def _projected(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, ...]:
        """Query, key and value; tokens first, then the batch."""
        if self.reduce is None or self.norm is None:
            return self.project(x.transpose(0, 1)).chunk(3, -1)
        source = self.norm(tokens(self.reduce(as_map(x, size)))).transpose(0, 1)
        width = x.shape[-1]
        weights, biases = (p.split((width, 2 * width)) for p in (self.project.weight, self.project.bias))
        query = F.linear(x.transpose(0, 1), weights[0], biases[0])
        return query, *F.linear(source, weights[1], biases[1]).chunk(2, -1)

    def _by_head(self, x: Tensor) -> Tensor:
        """(tokens, batch, width) to (batch and head, tokens, width of a head)."""
        return x.contiguous().view(len(x), x.shape[1] * self.heads, -1).transpose(0, 1)


def tokens(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


def as_map(x: Tensor, size: tuple[int, int]) -> Tensor:
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], *size)


class Vit(nn.Module):
    """ViT-B/16 at 512 pixels, maps after blocks 3, 6, 9, 12; a neck takes them to strides 4, 8, 16, 32."""

    SCALES = (4, 2, 1, 0.5)

    def __init__(self, width: int = 768, heads: int = 12, depth: int = 12):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 16, 16)
        self.position = nn.Parameter(torch.zeros(1, 1025, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.ModuleList(Block(width, Attention(width, heads), Mlp(width)) for _ in range(depth))
        self.laterals = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in self.SCALES)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in self.SCALES)

    def forward(self, images: Tensor) -> list[Tensor]:
        x = self.embed(images)
        size = (x.shape[2], x.shape[3])
        x = torch.cat([self.first.expand(len(x), -1, -1), tokens(x)], 1) + self.position
        maps = []
        for index, block in enumerate(self.blocks):
            x = block(x, size)
            if index % 3 == 2:
                maps.append(as_map(x[:, 1:], size).contiguous())
        maps = [lateral(x) for lateral, x in zip(self.laterals, maps, strict=True)]
        scaled = [
            F.interpolate(x, scale_factor=s, mode="bilinear") for x, s in zip(maps, self.SCALES, strict=True)
        ]
        return [conv(x) for conv, x in zip(self.convs, scaled, strict=True)]


class Mlp(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        return self.layers(x)


class MixMlp(nn.Module):
    """An MLP of convolutions, one of which sees its neighbours."""

    def __init__(self, width: int):
        super().__init__()
        inner = 4 * width
        self.layers = nn.Sequential(
            nn.Conv2d(width, inner, 1),
            nn.Conv2d(inner, inner, 3, padding=1, groups=inner),
            nn.GELU(),
            nn.Conv2d(inner, width, 1),
        )

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        return tokens(self.layers(as_map(x, size)))


class Block(nn.Module):
    """A transformer block with the norms before."""

    def __init__(self, width: int, attention: Attention, feed: nn.Module, drop_path: float = 0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed = attention, feed
        self.drop = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        x = x + self.drop(self.attention(self.norm1(x), size))
        return x + self.drop(self.feed(self.norm2(x), size))


class MixTransformer(nn.Module):
    """MiT-B2."""

    WIDTHS, DEPTHS, HEADS, REDUCTIONS = (64, 128, 320, 512), (3, 4, 6, 3), (1, 2, 5, 8), (8, 4, 2, 1)

    def __init__(self, drop_path: float = 0.1):
        super().__init__()
        kernels, strides = (7, 3, 3, 3), (4, 2, 2, 2)
        self.embeds = nn.ModuleList(
            nn.Conv2d(a, b, kernel, stride, kernel // 2)
            for a, b, kernel, stride in zip((3, *self.WIDTHS), self.WIDTHS, kernels, strides, strict=False)
        )
        self.starts = nn.ModuleList(map(nn.LayerNorm, self.WIDTHS))
        self.ends = nn.ModuleList(map(nn.LayerNorm, self.WIDTHS))
        rates = iter([drop_path * index / (sum(self.DEPTHS) - 1) for index in range(sum(self.DEPTHS))])
        self.stages = nn.ModuleList(
            nn.ModuleList(Block(w, Attention(w, h, r), MixMlp(w), next(rates)) for _ in range(depth))
            for w, depth, h, r in zip(self.WIDTHS, self.DEPTHS, self.HEADS, self.REDUCTIONS, strict=True)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = []
        for embed, start, stage, end in zip(self.embeds, self.starts, self.stages, self.ends, strict=True):
            x = embed(x)
            size = (x.shape[2], x.shape[3])
            x = start(tokens(x))
            for block in stage:
                x = block(x, size)
            maps.append(x := as_map(end(x), size))
        return maps
