"""Anchors: the boxes at every position of every level that a detector's outputs refer to."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator

from hires.ops.shapes import centred, clusters, recall, shapes_of
from hires.ops.windows import Size
from hires.settings import Bounds, SettingError, Settings

log = logging.getLogger(__name__)

Factor = Annotated[float, Bounds(0.01)]


@dataclass(frozen=True)
class AnchorSettings(Settings):
    """Which anchors a detector has at every position: each size of a level, at each scale and aspect."""

    sizes: tuple[Annotated[float, Bounds(1)], ...] | None = None  # of each level, pixels; overrides the next
    size_in_strides: Factor = 4.0
    scales: tuple[Factor, ...] = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    aspects: tuple[Factor, ...] = (0.5, 1.0, 2.0)  # height / width
    fit: bool = False  # to the boxes of the training data; as many a level as scales x aspects

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("scales", "aspects"):
            if not getattr(self, field):
                raise SettingError(field, [], "one number or more")

    def build(self, strides: Sequence[int]) -> "Anchors":
        """The anchors of levels of these strides. Raises SettingError for another number of sizes."""
        sizes = self.sizes or [stride * self.size_in_strides for stride in strides]
        if len(sizes) != len(strides):
            allowed = f"null, or {len(strides)} numbers: one for each level of strides {list(strides)}"
            raise SettingError("model.anchors.sizes", list(sizes), allowed)
        scaled = [[size * scale for scale in self.scales] for size in sizes]
        return Anchors(strides, scaled, [self.aspects] * len(strides), to_fit=self.fit)


class Anchors(nn.Module):
    """Boxes of the given `sizes` (side of a square of the same area, pixels) and aspects (height / width) a level.

    Position i of a level of stride s lies at i * s, as in torchvision. Sizes and aspects are one sequence for
    each level. Those `to_fit` depend on the training data, so that they are saved with the weights.
    """

    def __init__(
        self,
        strides: Sequence[int],
        sizes: Sequence[Sequence[float]],
        aspects: Sequence[Sequence[float]],
        *,
        to_fit: bool = False,
    ):
        super().__init__()
        self.strides, self.to_fit = tuple(strides), to_fit
        generator = AnchorGenerator(tuple(map(tuple, sizes)), tuple(map(tuple, aspects)))
        for level, cells in enumerate(generator.cell_anchors):
            self.register_buffer(f"cells{level}", cells, persistent=to_fit)

    @property
    def per_position(self) -> int:
        """Anchors at one position, the same at every level."""
        return len(self.cells(0))

    def cells(self, level: int) -> Tensor:
        """The boxes (n, 4) of a level around its position, pixels."""
        return self.get_buffer(f"cells{level}")

    def fit(self, shapes: Tensor) -> None:
        """Exchanges the boxes of each level for those that suit the data's shapes (N, 2), in pixels.

        A level gets the shapes that are nearest to its boxes by their side; one that gets fewer than it has
        boxes keeps its own.
        """
        if not len(shapes):
            log.warning("Anchors: the training data has no boxes to fit them to")
            return
        before, nearest = recall(shapes, self._shapes()), self._levels_of(shapes)
        for level in range(len(self.strides)):
            mine = shapes[nearest == level]
            if len(mine) >= self.per_position:
                self.cells(level).copy_(centred(clusters(mine, self.per_position)))
        log.info(
            "Anchors fitted to %d boxes: %.1f%% of them have one of IoU 0.5 or more (before: %.1f%%)",
            len(shapes),
            100 * recall(shapes, self._shapes()),
            100 * before,
        )

    def _shapes(self) -> Tensor:
        return torch.cat([shapes_of(self.cells(level)) for level in range(len(self.strides))])

    def _levels_of(self, shapes: Tensor) -> Tensor:
        """The level (N,) whose boxes have the side of each shape (N, 2), or the nearest to it."""
        of_boxes = self._shapes().prod(1).log().view(len(self.strides), -1).mean(1)
        return (shapes.prod(1).log()[:, None] - of_boxes).abs().argmin(1)

    def forward(self, sizes: Sequence[Size]) -> list[Tensor]:
        """Boxes (h * w * n, 4) float32 of each level of (h, w) positions, in the order of the heads' outputs."""
        return [self._level(level, size) for level, size in enumerate(sizes)]

    def _level(self, level: int, size: Size) -> Tensor:
        cells = self.cells(level)
        y, x = (torch.arange(side, device=cells.device) * self.strides[level] for side in size)
        y, x = torch.meshgrid(y, x, indexing="ij")
        shifts = torch.stack([x, y, x, y], dim=-1).view(-1, 1, 4)
        return (shifts + cells).reshape(-1, 4)
