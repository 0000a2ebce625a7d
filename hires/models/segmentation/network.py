"""What the segmentation networks share: a backbone, a decoder of segmentation-models-pytorch and a head."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from segmentation_models_pytorch.base import SegmentationHead
from segmentation_models_pytorch.base.initialization import initialize_decoder, initialize_head
from torch import Tensor, nn

from hires.models.backbone import STRIDES, Backbone
from hires.models.norm import Norm, convert
from hires.models.trial import Trial, try_forward
from hires.settings import Bounds, Settings

Channels = Annotated[int, Bounds(1)]


@dataclass(frozen=True)
class NetworkSettings(Settings, ABC):
    """What every segmentation network has to be told. `multilabel` is read by the task and the data."""

    num_classes: Annotated[int, Bounds(1, 255)] | None = None
    multilabel: bool = False
    norm: Norm = "batch"

    def build(self, backbone: Backbone, num_classes: int, *, pretrained: bool = False) -> "SegmentationNetwork":
        """The network for a number of classes; `pretrained` says whether the backbone brings statistics."""
        network = self.network(backbone, num_classes)
        for name, part in network.named_children():
            setattr(network, name, convert(part, self.norm, pretrained=pretrained and name == "backbone"))
        backbone.freeze()  # exchanged layers are new ones
        return network

    @abstractmethod
    def network(self, backbone: Backbone, num_classes: int) -> "SegmentationNetwork":
        """The network with the norms that its parts come with."""


class SegmentationNetwork(nn.Module):
    """(B, C, H, W) floats, sides multiples of 32, to logits (B, num_classes, h, w) at the decoder's stride."""

    stride = 32

    def __init__(self, *, backbone: Backbone, decoder: nn.Module, width: int, num_classes: int):
        super().__init__()
        self.backbone, self.decoder = backbone, decoder
        self.head = SegmentationHead(width, num_classes, kernel_size=3)
        initialize_decoder(self.decoder)
        initialize_head(self.head)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.decoder(self.features(x)))

    def features(self, x: Tensor) -> list[Tensor]:
        """The image and one map for each of the strides 2 to 32; that of stride 2 may have no channels."""
        features = self.backbone(x)
        if 2 not in self.backbone.strides:
            features.insert(0, x.new_empty(x.shape[0], 0, x.shape[2] // 2, x.shape[3] // 2))
        return [x, *features]

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Module names by stage."""
        stages = {stage: tuple(f"backbone.{n}" for n in names) for stage, names in self.backbone.stages().items()}
        return {**stages, "decoder": self.decoder_modules(), "head": ("head",)}

    def decoder_modules(self) -> tuple[str, ...]:
        """Names of the decoder's parts."""
        return tuple(f"decoder.{name}" for name, _ in self.decoder.named_children())

    def check(self, trials: Sequence[Trial]) -> None:
        """Raises ConfigError, with what to set, when the network cannot take one of the shapes."""
        for trial in trials:
            try_forward(self, trial, channels=len(self.backbone.mean), name=self.backbone.name)


def widths(backbone: Backbone) -> list[int]:
    """Channels of the image, as the library counts them, and of the maps at strides 2 to 32 (0: no such map)."""
    by_stride = dict(zip(backbone.strides, backbone.channels, strict=True))
    return [len(backbone.mean), *(by_stride.get(stride, 0) for stride in STRIDES)]
