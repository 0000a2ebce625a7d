"""Decides how an optimizer step is carried out within the memory at hand."""

from dataclasses import dataclass
from typing import Literal

from hires.interfaces import ConfigError, MemoryPlan
from hires.memory.budget import check_budget
from hires.memory.policies import check_policies
from hires.settings import SettingError, Settings


@dataclass(frozen=True)
class FixedPlanner(Settings):
    """Takes the micro-batch and the policies as they are given."""

    activation_checkpointing: str | dict[str, str] = "none"
    offload_dir: str | None = None  # where the policy `offload` puts what the CPU keeps
    verify: bool = False  # before training, whether every unit does the same twice
    device: Literal["cpu", "cuda"] | None = None  # that memory is predicted for; None: the trainer's
    measure: bool = False  # whether a prediction is compared with a run
    budget: str | float | None = None  # what may be reserved; the cheapest policies within it are looked for

    def __post_init__(self) -> None:
        super().__post_init__()
        check_policies(self.activation_checkpointing)
        check_budget(self.budget)
        if self.offload_dir is not None and not self.offload_dir.strip():
            raise SettingError("offload_dir", self.offload_dir, "a folder or null")

    def plan(
        self, *, batch_size: int, micro_batch_size: int | None, image_size: tuple[int, int], precision: str
    ) -> MemoryPlan:
        """The plan of a step. Raises ConfigError when the micro-batch is larger than the batch."""
        micro = micro_batch_size or batch_size
        if micro > batch_size:
            raise ConfigError(f"micro_batch_size: got {micro}, allowed: at most batch_size, {batch_size}")
        return MemoryPlan(
            micro_batch_size=micro,
            accumulation_steps=-(-batch_size // micro),
            image_size=image_size,
            precision=precision,
        )
