"""What the networks of every task share: a backbone in front, norms of one kind, shapes that can be tried."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import nn

from hires.models.backbone import Backbone
from hires.models.norm import Norm, convert
from hires.models.trial import Trial, try_forward
from hires.settings import Bounds, Settings

Channels = Annotated[int, Bounds(1)]


@dataclass(frozen=True)
class NetworkSettings(Settings, ABC):
    """What every network has to be told. `task`: the kind of task that trains it, None where any may do."""

    task: ClassVar[str | None] = None

    num_classes: Annotated[int, Bounds(1, 255)] | None = None
    norm: Norm = "batch"

    def build(self, backbone: Backbone, num_classes: int, *, pretrained: bool = False) -> Any:
        """The network for a number of classes; `pretrained` says whether the backbone brings statistics."""
        network = self.network(backbone, num_classes)
        for name, part in network.named_children():
            setattr(network, name, convert(part, self.norm, pretrained=pretrained and name == "backbone"))
        backbone.freeze()  # exchanged layers are new ones
        return network

    @abstractmethod
    def network(self, backbone: Backbone, num_classes: int) -> "Network":
        """The network with the norms that its parts come with."""


class Network(nn.Module):
    """A module with a backbone that takes (B, C, H, W) floats, sides multiples of `stride`."""

    stride = 32

    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone

    def stages(self) -> dict[str, tuple[str, ...]]:
        """Module names by stage; those of the backbone here."""
        return {stage: tuple(f"backbone.{n}" for n in names) for stage, names in self.backbone.stages().items()}

    def check(self, trials: Sequence[Trial]) -> None:
        """Raises ConfigError, with what to set, when the network cannot take one of the shapes."""
        for trial in trials:
            try_forward(self, trial, channels=len(self.backbone.mean), name=self.backbone.name)
