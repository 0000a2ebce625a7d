"""Networks whose memory in training others have published, rebuilt for shapes, norms and losses, not for accuracy.

Every network is called with a batch and gives its loss. What the originals do besides is here too where it takes
memory: the accuracy for the log, the overlaps of anchors and boxes. SyncBatchNorm keeps what BatchNorm keeps.
"""

from collections.abc import Sequence
from typing import Any

import torch
from published_backbones import ResNet, conv_bn_relu, resized
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models.segmentation import fcn_resnet50
from torchvision.ops import FeaturePyramidNetwork
from torchvision.ops.feature_pyramid_network import LastLevelP6P7

IGNORED = 255


def separable(inputs: int, outputs: int, dilation: int = 1) -> nn.Sequential:
    depthwise = conv_bn_relu(inputs, inputs, 3, dilation=dilation, groups=inputs)
    return nn.Sequential(depthwise, conv_bn_relu(inputs, outputs))


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """MMSegmentation's: logits to the size of the labels in float32, cross entropy by pixel, then the accuracy."""
    with torch.autocast(logits.device.type, enabled=False):
        logits = resized(logits.float(), labels)
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none").mean()
        logits.topk(1, dim=1)
    return loss


class Classifier(nn.Sequential):
    """What ends every head."""

    def __init__(self, channels: int, classes: int):
        super().__init__(nn.Dropout2d(0.1), nn.Conv2d(channels, classes, 1))


class FcnHead(nn.Module):
    """Convolutions on one map; where `joined`, one more on the map and their result together."""

    def __init__(
        self, inputs: int, channels: int, classes: int, *, level: int, count: int = 1, joined: bool = False
    ):
        super().__init__()
        self.level = level
        widths = [inputs] + [channels] * count
        self.convs = nn.Sequential(*(conv_bn_relu(a, b, 3) for a, b in zip(widths, widths[1:], strict=False)))
        self.join = conv_bn_relu(inputs + channels, channels, 3) if joined else None
        self.classify = Classifier(channels, classes)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        x = self.convs(maps[self.level])
        if self.join is not None:
            x = self.join(torch.cat([maps[self.level], x], 1))
        return self.classify(x)


class PyramidPooling(nn.Module):
    def __init__(self, inputs: int, channels: int = 512):
        super().__init__()
        scales = (1, 2, 3, 6)
        self.pools = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(scale), conv_bn_relu(inputs, channels)) for scale in scales
        )
        self.merge = conv_bn_relu(inputs + channels * len(scales), channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.merge(torch.cat([x, *(resized(pool(x), x) for pool in self.pools)], 1))


class PspHead(nn.Module):
    def __init__(self, inputs: int, classes: int):
        super().__init__()
        self.pool, self.classify = PyramidPooling(inputs), Classifier(512, classes)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        return self.classify(self.pool(maps[-1]))


class AsppHead(nn.Module):
    """DeepLabV3+ with separable convolutions."""

    def __init__(self, inputs: int, classes: int, channels: int = 512):
        super().__init__()
        self.image = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv_bn_relu(inputs, channels))
        dilated = [separable(inputs, channels, dilation) for dilation in (12, 24, 36)]
        self.branches = nn.ModuleList([conv_bn_relu(inputs, channels), *dilated])
        self.merge = conv_bn_relu(5 * channels, channels, 3)
        self.fine = conv_bn_relu(256, 48)
        self.refine = nn.Sequential(separable(channels + 48, channels), separable(channels, channels))
        self.classify = Classifier(channels, classes)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        x = maps[-1]
        x = self.merge(torch.cat([resized(self.image(x), x), *(branch(x) for branch in self.branches)], 1))
        fine = self.fine(maps[0])
        return self.classify(self.refine(torch.cat([resized(x, fine), fine], 1)))


class UperHead(nn.Module):
    def __init__(self, widths: Sequence[int], classes: int, channels: int = 512):
        super().__init__()
        self.pool = PyramidPooling(widths[-1], channels)
        self.laterals = nn.ModuleList(conv_bn_relu(width, channels) for width in widths[:-1])
        self.smooth = nn.ModuleList(conv_bn_relu(channels, channels, 3) for _ in widths[:-1])
        self.merge = conv_bn_relu(channels * len(widths), channels, 3)
        self.classify = Classifier(channels, classes)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        laterals = [lateral(x) for lateral, x in zip(self.laterals, maps, strict=False)]
        laterals.append(self.pool(maps[-1]))
        for level in range(len(laterals) - 1, 0, -1):
            laterals[level - 1] = laterals[level - 1] + resized(laterals[level], laterals[level - 1])
        outs = [smooth(x) for smooth, x in zip(self.smooth, laterals, strict=False)] + laterals[-1:]
        outs[1:] = [resized(x, outs[0]) for x in outs[1:]]
        return self.classify(self.merge(torch.cat(outs, 1)))


class SemanticFpnHead(nn.Module):
    """A feature pyramid without norms, then for each level convolutions and steps to stride 4."""

    def __init__(self, widths: Sequence[int], classes: int, channels: int = 128):
        super().__init__()
        self.fpn = FeaturePyramidNetwork(list(widths), 256)
        self.heads = nn.ModuleList(self._head(steps, channels) for steps in range(len(widths)))
        self.classify = Classifier(channels, classes)

    @staticmethod
    def _head(steps: int, channels: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for step in range(max(1, steps)):
            layers.append(conv_bn_relu(channels if step else 256, channels, 3))
            if steps:
                layers.append(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False))
        return nn.Sequential(*layers)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        levels = list(self.fpn({str(index): x for index, x in enumerate(maps)}).values())
        x = self.heads[0](levels[0])
        for head, level in zip(self.heads[1:], levels[1:], strict=True):
            x = x + resized(head(level), x)
        return self.classify(x)


class Segmentor(nn.Module):
    """MMSegmentation's loss of a network: that of the head, and 0.4 of that of an auxiliary head."""

    def __init__(self, backbone: nn.Module, head: nn.Module, auxiliary: nn.Module | None = None):
        super().__init__()
        self.backbone, self.head, self.auxiliary = backbone, head, auxiliary

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        maps = self.backbone(images)
        loss = mean_loss(self.head(maps), labels)
        if self.auxiliary is not None:
            loss = loss + 0.4 * mean_loss(self.auxiliary(maps), labels)
        return loss


class SegformerHead(nn.Module):
    def __init__(self, widths: Sequence[int], classes: int, channels: int = 256):
        super().__init__()
        self.laterals = nn.ModuleList(conv_bn_relu(width, channels) for width in widths)
        self.merge = conv_bn_relu(channels * len(widths), channels)
        self.classify = Classifier(channels, classes)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        outs = [resized(lateral(x), maps[0]) for lateral, x in zip(self.laterals, maps, strict=True)]
        return self.classify(self.merge(torch.cat(outs, 1)))


class TorchvisionFcn(nn.Module):
    """torchvision's FCN with its reference script's loss; as there, the last output is held to the next one."""

    def __init__(self, classes: int = 21):
        super().__init__()
        self.net = fcn_resnet50(weights=None, weights_backbone=None, num_classes=classes, aux_loss=True)
        self.output: dict[str, Tensor] = {}

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        self.output = self.net(images)
        out, auxiliary = (
            F.cross_entropy(x, labels, ignore_index=IGNORED) for x in (self.output["out"], self.output["aux"])
        )
        return out + 0.5 * auxiliary


class Tsn(nn.Module):
    """A temporal segment network: ResNet-50 on single frames, their features averaged over the video."""

    def __init__(self, classes: int = 400):
        super().__init__()
        self.backbone, self.drop = ResNet(50, deep_stem=False), nn.Dropout(0.4)
        self.pool, self.classify = nn.AdaptiveAvgPool2d(1), nn.Linear(2048, classes)

    def forward(self, videos: Tensor, labels: Tensor) -> Tensor:
        features = self.pool(self.backbone(videos.flatten(0, 1))[-1]).reshape(*videos.shape[:2], -1, 1, 1)
        averaged = features.mean(1).flatten(1)
        return F.cross_entropy(self.classify(self.drop(averaged)), labels)


class FocalLoss(torch.autograd.Function):
    """For its memory alone: the CUDA operator is one kernel forward and one backward, without numbers here."""

    @staticmethod
    def forward(context: Any, logits: Tensor, labels: Tensor) -> Tensor:
        context.save_for_backward(logits, labels)
        return torch.empty_like(logits)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return torch.empty_like(context.saved_tensors[0]), None


class RetinaNet(nn.Module):
    """MMDetection's, ResNet-50: norms in evaluation mode, the stem and the first stage frozen, losses by level."""

    ANCHORS, CLASSES = 9, 80

    def __init__(self, depth: int = 50):
        super().__init__()
        self.backbone = ResNet(depth, deep_stem=False)
        for frozen in (self.backbone.stem, self.backbone.stages[0]):
            frozen.requires_grad_(False)
        widths = [512, 1024, 2048] if depth >= 50 else [128, 256, 512]
        self.fpn = FeaturePyramidNetwork(widths, 256, LastLevelP6P7(widths[-1], 256))
        self.classes, self.boxes = self._tower(self.CLASSES), self._tower(4)

    def _tower(self, outputs: int) -> nn.Sequential:
        pairs = ((nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(inplace=True)) for _ in range(4))
        last = nn.Conv2d(256, self.ANCHORS * outputs, 3, padding=1)
        return nn.Sequential(*(layer for pair in pairs for layer in pair), last)

    def train(self, mode: bool = True) -> "RetinaNet":
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, images: Tensor, boxes: Tensor) -> Tensor:
        maps = self.backbone(images)[1:]
        levels = list(self.fpn({str(index): x for index, x in enumerate(maps)}).values())
        logits, deltas = [self.classes(x) for x in levels], [self.boxes(x) for x in levels]
        counts = [x.shape[-2] * x.shape[-1] * self.ANCHORS for x in levels]
        anchors = images.new_zeros(sum(counts), 4)
        targets = [assigned(single, anchors) for single in boxes]
        labels, weights, wanted = (torch.stack(parts).split(counts, 1) for parts in zip(*targets, strict=True))
        losses = map(self._loss, logits, deltas, labels, weights, wanted)
        return sum(losses, images.new_zeros(()))

    def _loss(self, logits: Tensor, deltas: Tensor, labels: Tensor, weights: Tensor, wanted: Tensor) -> Tensor:
        weights = weights.reshape(-1, 1)
        logits = logits.permute(0, 2, 3, 1).reshape(-1, self.CLASSES)
        loss = (FocalLoss.apply(logits, labels.reshape(-1)) * weights).sum()
        deltas = deltas.permute(0, 2, 3, 1).reshape(-1, 4)
        return loss + (F.l1_loss(deltas, wanted.reshape(-1, 4), reduction="none") * weights).sum()


def assigned(boxes: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Labels, weights and regression targets of the anchors, by their overlaps with all boxes of an image."""
    best = overlaps(boxes, anchors).max(0)
    return torch.zeros_like(best.indices), best.values, boxes[best.indices]


def overlaps(boxes: Tensor, anchors: Tensor) -> Tensor:
    """Intersection over union, with what the original holds until it returns."""
    low = torch.max(boxes[:, None, :2], anchors[None, :, :2])
    high = torch.min(boxes[:, None, 2:], anchors[None, :, 2:])
    sides = (high - low).clamp(min=0)
    both = sides[..., 0] * sides[..., 1]
    areas = [(b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) for b in (boxes, anchors)]
    union = areas[0][:, None] + areas[1][None] - both
    return both / union
