"""What is said about memory: policies and micro-batch as they are given, or what a planner may choose."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hires.memory.budget import check_budget
from hires.memory.policies import AUTO, check_policies, parse_policy
from hires.settings import Bounds, SettingError, Settings

Goal = Literal["batch", "resolution", "throughput"]


@dataclass(frozen=True)
class MemorySettings(Settings):
    """The knobs of memory; any that is `auto`, or a goal, has the rest of the plan searched for."""

    activation_checkpointing: str | dict[str, str] = "none"  # or auto
    offload_dir: str | None = None  # where the policy `offload` puts what the CPU keeps
    verify: bool = False  # before training, whether every unit does the same twice
    device: Literal["cpu", "cuda"] | None = None  # that memory is predicted for; None: the trainer's
    measure: bool = False  # whether a prediction is compared with a run
    budget: str | float | None = None  # what may be reserved
    maximize: Goal | None = None  # what the search is for
    max_image_size: Annotated[int, Bounds(1)] | None = (
        1024  # pixels that image_size=auto goes up to, without a goal
    )
    min_micro_batch: Annotated[int, Bounds(1)] | None = None  # None: 2 with BatchNorm, else 1
    scale_batch_size: bool = False  # whether the batch size may grow with the micro-batch
    choices: tuple[str, ...] = ("none", "selective", "full", "full@2", "full@stage")  # policies of `auto`
    plan: str | None = None  # a file with a plan that is carried out as it is

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation_checkpointing != AUTO:
            check_policies(self.activation_checkpointing)
        for policy in self.choices:
            parse_policy(policy, "memory.choices")
        if not self.choices:
            raise SettingError("choices", [], "at least one policy")
        check_budget(self.budget)
        if self.offload_dir is not None and not self.offload_dir.strip():
            raise SettingError("offload_dir", self.offload_dir, "a folder or null")
