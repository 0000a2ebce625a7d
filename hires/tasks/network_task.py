"""What the tasks share: pixels are normalised, go through the network, and its outputs to a loss."""

from typing import Any

import torch
from torch import Tensor, nn

from hires.interfaces import ConfigError, Normalization


class NetworkTask(nn.Module):
    """A network with its loss; images are (B, C, H, W) of the type of their files."""

    def __init__(self, *, network: Any, loss: Any):
        super().__init__()
        self.normalize = Normalize(network.backbone.mean, network.backbone.std)
        self.network, self.loss = network, loss

    def stages(self) -> dict[str, tuple[str, ...]]:
        named = {s: tuple(f"network.{name}" for name in names) for s, names in self.network.stages().items()}
        return {**named, "loss": tuple(f"loss.{name}" for name in self.loss.unit_names) or ("loss",)}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """timm's layer groups of the backbone; what follows the backbone is the last layer."""
        return self.network.backbone.group_matcher("network.backbone.", coarse)

    def random_images(
        self, size: int, image_size: tuple[int, int], generator: torch.Generator, dtype: str = "uint8"
    ) -> Tensor:
        """Images of random pixels."""
        shape = (size, len(self.normalize.mean), *image_size)
        images = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        return images if dtype == "uint8" else images.to(getattr(torch, dtype))


def demand(source: Any, method: str, wanted: str, instead: str) -> None:
    """Raises ConfigError for a source of images whose truth is of another kind than the task's."""
    if not hasattr(source, method):
        raise ConfigError(f"model: it learns from {wanted}, which this data does not have; choose {instead}")


class Normalize(nn.Module):
    """Pixels of any type to floats around zero, once.

    `mean` and `std`, one per channel, are those of the pretraining, for pixels scaled to 0..1: by the range of
    their type, where floats are within 0..1 already, unless a `Normalization` says what 0 and 1 are.
    """

    mean: Tensor
    std: Tensor
    low: Tensor | None
    high: Tensor | None
    shift: Tensor | None
    scale: Tensor | None

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)
        for name in ("low", "high", "shift", "scale"):
            self.register_buffer(name, None, persistent=False)

    def use(self, normalization: Normalization) -> None:
        """From now on pixels are normalised so. The state that is saved does not hold it."""
        if normalization.method == "dtype":
            return
        low, high = (_column(values) for values in (normalization.low, normalization.high))
        if normalization.method == "mean_std":
            self.shift, self.scale = _column(normalization.mean).float(), _column(normalization.std).float()
            return
        if normalization.clips:
            self.low, self.high = low.float(), high.float()
        # in float64, since a range of large numbers may be small
        self.shift, self.scale = (low + self.mean * (high - low)).float(), (self.std * (high - low)).float()

    def forward(self, images: Tensor) -> Tensor:
        if self.shift is not None and self.scale is not None:
            pixels = images.float() if self.low is None else torch.clamp(images.float(), self.low, self.high)
            return (pixels - self.shift) / self.scale
        scale = 1 if images.is_floating_point() else torch.iinfo(images.dtype).max
        return (images.float() - self.mean * scale) / (self.std * scale)


def _column(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).view(-1, 1, 1)
