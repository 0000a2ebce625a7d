"""Settings of the training loop and of evaluation."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hires.ops.choices import Count, DetectionChoices
from hires.settings import Bounds, SettingError, Settings

Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
Accelerator = Literal["auto", "cpu", "cuda"]
Side = Annotated[int, Bounds(32)]


@dataclass(frozen=True)
class TrainerSettings(Settings):
    """How long and how to train; `max_epochs` counts where `max_steps` is not given."""

    max_steps: Count | None = None
    max_epochs: Count = 50
    precision: Precision = "32-true"
    accelerator: Accelerator = "auto"
    devices: Literal["auto"] | Count = 1  # of a machine
    num_nodes: Count = 1
    strategy: Literal["auto", "ddp", "fsdp2"] = "auto"
    timeout: Count = 60  # minutes
    clip_grad_norm: Annotated[float, Bounds(0)] | None = None
    ema_decay: Annotated[float, Bounds(0, 1)] | None = None
    channels_last: bool = True
    compile: bool = False
    log_every: Count = 10
    checkpoint_every: Count = 500
    checkpoint_minutes: Annotated[float, Bounds(0)] | None = 10
    patience: Count | None = None
    max_skipped: Annotated[int, Bounds(0)] = 10

    def steps(self, steps_per_epoch: int) -> int:
        """Optimizer steps of the whole training."""
        return self.max_steps or self.max_epochs * steps_per_epoch


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(DetectionChoices):
    """How whole images are evaluated, and how often during training."""

    every: str | Count | None = "1ep"
    metric: str | None = None  # None: the task's own
    fit: Literal["window", "resize"] = "window"
    window: Side | tuple[Side, Side] | None = None
    image_size: Side | tuple[Side, Side] | None = None
    overlap: Annotated[float, Bounds(0, 0.9)] = 0.25
    batch_size: Count = 1
    statistics: Literal["window", "image"] = "window"
    whole_image: bool = False  # one more view: the whole image, scaled to fit
    tta: tuple[Literal["hflip", "vflip"] | Annotated[float, Bounds(0.1, 10)], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.interval(1)
        if self.fit == "resize" and self.whole_image:
            raise SettingError("whole_image", True, "false with fit=resize, which shows nothing else")
        if self.fit == "resize" and any(not isinstance(entry, str) for entry in self.tta):
            raise SettingError("tta", list(self.tta), "hflip, vflip; scales need fit=window")

    def interval(self, steps_per_epoch: int) -> int | None:
        """Steps between two evaluations; None: only at the end."""
        if self.every is None or isinstance(self.every, int):
            return self.every
        count, unit = self.every[:-2], self.every[-2:]
        if unit != "ep" or not count.isdigit() or int(count) == 0:
            raise SettingError("every", self.every, "steps (500), epochs (1ep), or null")
        return int(count) * steps_per_epoch
