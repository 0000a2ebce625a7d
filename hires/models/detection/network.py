"""What the detectors share: backbone, neck and anchors in front of the heads."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hires.interfaces import Target
from hires.models.backbone import Backbone
from hires.models.detection.anchors import Anchors
from hires.models.detection.neck import Neck, NeckSettings
from hires.models.network import Network, NetworkSettings
from hires.ops.boxes import Detections
from hires.ops.dense import Choice, DenseOutputs, candidates, split_levels, suppressed


@dataclass(frozen=True)
class DetectionNetworkSettings(NetworkSettings):
    """What every detector has to be told."""

    neck: NeckSettings = field(default_factory=NeckSettings)


class DetectionNetwork(Network, ABC):
    """(B, C, H, W) floats, sides multiples of 32, to outputs that `detect` and the task's loss read.

    The outputs are a tuple of tensors; in training a detector that proposes boxes needs the targets.
    """

    def __init__(self, *, backbone: Backbone, neck: Neck, anchors: Anchors, head: nn.Module):
        super().__init__(backbone)
        self.neck, self.anchors, self.head = neck, anchors, head

    @abstractmethod
    def forward(self, x: Tensor, targets: list[Target] | None = None) -> Any:
        """Outputs for the loss and for `detect`."""

    @abstractmethod
    def detect(self, outputs: Any, extent: tuple[int, int], choice: Choice) -> list[Detections]:
        """The objects in each image of (height, width) pixels, best first."""

    def features(self, x: Tensor) -> list[Tensor]:
        """One map for each stride of the neck, finest first."""
        return self.neck(self.backbone(x))

    def anchors_of(self, size: tuple[int, int]) -> list[Tensor]:
        """The anchors of each level for images of (height, width) pixels."""
        return self.anchors(self.neck.sizes(*size))

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Module names by stage."""
        stages = super().stages()
        neck = (*stages.pop("neck", ()), "neck.pyramid", *(f"neck.extra.{i}" for i in range(len(self.neck.extra))))
        heads = tuple(f"head.{name}" for name, _ in self.head.named_children())
        return {**stages, "neck": neck, "head": heads}


class DenseNetwork(DetectionNetwork):
    """A detector that says of every anchor what is there."""

    @abstractmethod
    def scores(self, outputs: DenseOutputs) -> Tensor:
        """(B, A, K) float32, 0 to 1."""

    @abstractmethod
    def decode(self, deltas: Tensor, anchors: Tensor) -> Tensor:
        """Boxes (n, 4) of deltas (n, 4) from anchors (n, 4)."""

    def detect(self, outputs: DenseOutputs, extent: tuple[int, int], choice: Choice) -> list[Detections]:
        return [
            self._detect(scores, deltas.float(), outputs.anchors, extent, choice)
            for scores, deltas in zip(self.scores(outputs), outputs.deltas, strict=True)
        ]

    def _detect(
        self, scores: Tensor, deltas: Tensor, anchors: list[Tensor], extent: tuple[int, int], choice: Choice
    ) -> Detections:
        found = []
        levels = split_levels(scores, anchors), split_levels(deltas, anchors)
        for level, score, delta in zip(anchors, *levels, strict=True):
            best = candidates(score, choice)
            found.append((self.decode(delta[best.anchors], level[best.anchors]), best.scores, best.labels))
        boxes, scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
        return suppressed(boxes, scores, labels, extent, choice)
