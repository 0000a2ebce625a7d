"""Detectors as graphs without branches, for exporters: one image, any number of objects.

What a network's `detect` does, in operations whose shapes a tracer can follow: nothing asks how many boxes there
are, and `topk` always sees enough of them.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.ops import clip_boxes_to_image, nms, remove_small_boxes, roi_align
from torchvision.ops.poolers import LevelMapper, MultiScaleRoIAlign

from hires.models.detection.faster_rcnn import FasterRcnn
from hires.models.detection.network import DenseNetwork
from hires.models.detection.proposals import SMALLEST as SMALLEST_PROPOSAL
from hires.models.detection.regions import CODER, SMALLEST
from hires.ops.dense import OFFSETS, Choice, DenseOutputs

Found = tuple[Tensor, Tensor, Tensor]
"""Boxes (n, 4), scores (n,) and labels (n,)."""


class DenseGraph(nn.Module):
    """(1, C, H, W) to the boxes, scores and labels of the objects, best first."""

    def __init__(self, network: DenseNetwork, choice: Choice):
        super().__init__()
        self.network, self.choice = network, choice

    def forward(self, x: Tensor) -> Found:
        outputs: DenseOutputs = self.network(x)
        counts = [level.shape[0] for level in outputs.anchors]
        levels = self.network.scores(outputs)[0].split(counts), outputs.deltas[0].float().split(counts)
        found = []
        for anchors, scores, deltas in zip(outputs.anchors, *levels, strict=True):
            index, best, labels = candidates(scores, self.choice)
            found.append((self.network.decode(deltas[index], anchors[index]), best, labels))
        boxes, best, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
        return suppressed(boxes, best, labels, (x.shape[-2], x.shape[-1]), self.choice)


class AnchorGraph(nn.Module):
    """(B, C, H, W) to boxes (B, A, 4), clipped, and scores (B, A, K) of all A anchors of all levels."""

    def __init__(self, network: DenseNetwork):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        outputs: DenseOutputs = self.network(x)
        deltas, anchors = outputs.deltas.float(), torch.cat(outputs.anchors)
        every = anchors.expand(deltas.shape[0], -1, -1).reshape(-1, 4)
        boxes = self.network.decode(deltas.reshape(-1, 4), every).reshape(deltas.shape)
        return clip_boxes_to_image(boxes, (x.shape[-2], x.shape[-1])), self.network.scores(outputs)


class RegionGraph(nn.Module):
    """(1, C, H, W) to boxes, scores and labels, best first, and masks (n, S, S) where the network has them.

    The network's pooling of regions is exchanged: the one here is a copy.
    """

    def __init__(self, network: FasterRcnn, choice: Choice):
        super().__init__()
        self.network, self.choice = copy.deepcopy(network), choice
        for head in self.network.head.values():
            if isinstance(getattr(head, "pool", None), MultiScaleRoIAlign):
                head.pool = RegionPool(network.neck.strides, head.pool)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        network, extent = self.network, (x.shape[-2], x.shape[-1])
        features = network.features(x)
        outputs = network.dense(features, extent)
        features = features[: len(features) - len(network.neck.extra)]
        proposals = self._proposals(outputs, extent)
        logits, deltas = network.head["box"](features, [proposals], extent)
        index, best, labels = candidates(logits.float().softmax(-1)[:, 1:], self.choice)
        boxes = CODER.decode_single(deltas[index, labels + 1].float(), proposals[index])
        boxes = clip_boxes_to_image(boxes, extent)
        large = remove_small_boxes(boxes, SMALLEST)
        found = suppressed(boxes[large], best[large], labels[large], extent, self.choice)
        return (*found, self._masks(features, found, extent)) if "mask" in network.head else found

    def _proposals(self, outputs: DenseOutputs, extent: tuple[int, int]) -> Tensor:
        settings = self.network.settings.proposals
        limits, found = settings.evaluation_limits, []
        counts = [level.shape[0] for level in outputs.anchors]
        levels = outputs.logits[0, :, 0].float().split(counts), outputs.deltas[0].float().split(counts)
        for number, (anchors, logits, deltas) in enumerate(zip(outputs.anchors, *levels, strict=True)):
            best, order = best_of(logits, limits.candidates, -torch.inf)
            boxes = OFFSETS.decode_single(deltas[order], anchors[order])
            found.append((boxes, best.sigmoid(), torch.full_like(order, number)))
        boxes, scores, numbers = (torch.cat(parts) for parts in zip(*found, strict=True))
        boxes = clip_boxes_to_image(boxes, extent)
        large = remove_small_boxes(boxes, SMALLEST_PROPOSAL)
        boxes = boxes[large]
        kept = apart_nms(boxes, scores[large], numbers[large], extent, settings.nms_iou)
        return boxes[kept[: limits.proposals]]

    def _masks(self, features: list[Tensor], found: Found, extent: tuple[int, int]) -> Tensor:
        boxes, _, labels = found
        head: Any = self.network.head["mask"]
        named = {str(level): values for level, values in enumerate(features)}
        logits = head.predictor(head.layers(head.pool(named, [boxes], [extent])))
        picked = labels[:, None, None, None].expand(-1, 1, logits.shape[2], logits.shape[3])
        return logits.gather(1, picked)[:, 0].float().sigmoid()


class RegionPool(nn.Module):
    """torchvision's pooling of regions from the level that suits their size, for one image."""

    def __init__(self, strides: tuple[int, ...], pool: MultiScaleRoIAlign):
        super().__init__()
        self.scales = [1 / stride for stride in strides[: len(pool.featmap_names)]]
        self.size, self.points = pool.output_size, pool.sampling_ratio
        low, high = (stride.bit_length() - 1 for stride in (strides[0], strides[len(self.scales) - 1]))
        self.level_of = LevelMapper(low, high, pool.canonical_scale, pool.canonical_level)

    def forward(self, features: dict[str, Tensor], boxes: list[Tensor], _: list[tuple[int, int]]) -> Tensor:
        regions = torch.cat([torch.zeros_like(boxes[0][:, :1]), boxes[0]], dim=1)
        levels = self.level_of(boxes)
        maps = list(features.values())
        result = maps[0].new_zeros(regions.shape[0], maps[0].shape[1], *self.size)
        for number, (level, scale) in enumerate(zip(maps, self.scales, strict=True)):
            mine = torch.where(levels == number)[0]
            result = result.index_put((mine,), roi_align(level, regions[mine], self.size, scale, self.points))
        return result


def best_of(values: Tensor, most: int, above: float) -> tuple[Tensor, Tensor]:
    """The best `most` of values (n,) that lie above a bound, and their indices, best first."""
    enough = torch.cat([values, values.new_full((most,), above)])
    best, order = enough.topk(most)
    kept = torch.where(best > above)[0]
    return best[kept], order[kept]


def candidates(scores: Tensor, choice: Choice) -> tuple[Tensor, Tensor, Tensor]:
    """As `hires.ops.dense.candidates`: indices into scores (a, K), the scores and labels of the best."""
    best, order = best_of(scores.flatten(), choice.candidates, choice.score)
    return order // scores.shape[-1], best, order % scores.shape[-1]


def suppressed(boxes: Tensor, scores: Tensor, labels: Tensor, extent: tuple[int, int], choice: Choice) -> Found:
    """As `hires.ops.dense.suppressed`."""
    boxes = clip_boxes_to_image(boxes, extent)
    keep = apart_nms(boxes, scores, labels, extent, choice.iou)[: choice.most]
    return boxes[keep], scores[keep], labels[keep]


def apart_nms(boxes: Tensor, scores: Tensor, groups: Tensor, extent: tuple[int, int], iou: float) -> Tensor:
    """Non-maximum suppression within groups (n,) of boxes (n, 4) inside the extent: groups lie side by side."""
    beside = groups[:, None].to(boxes.dtype) * (torch.sym_max(*extent) + 1)
    return nms(boxes + beside, scores, iou)
