"""What the tasks share: pixels are normalised, go through the network, and its outputs to a loss."""

from typing import Any

import torch
from torch import Tensor, nn

from hires.interfaces import ConfigError


class NetworkTask(nn.Module):
    """A network with its loss; images are (B, C, H, W) uint8 or uint16."""

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

    def random_images(self, size: int, image_size: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Images of random pixels."""
        shape = (size, len(self.normalize.mean), *image_size)
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator)


def demand(source: Any, method: str, wanted: str, instead: str) -> None:
    """Raises ConfigError for a source of images whose truth is of another kind than the task's."""
    if not hasattr(source, method):
        raise ConfigError(f"model: it learns from {wanted}, which this data does not have; choose {instead}")


class Normalize(nn.Module):
    """Pixels of an integer type to floats with the mean and deviation of the pretraining, once.

    `mean` and `std`, one per channel, belong to pixels scaled to 0..1 by the range of their type.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        scale = torch.iinfo(images.dtype).max
        return (images.float() - self.mean * scale) / (self.std * scale)
