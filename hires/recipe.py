"""The settings of a run as checked objects: what `build` reads out of a configuration."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from omegaconf import DictConfig

from hires.config_values import settings_of
from hires.data.augment import Augment
from hires.data.settings import DataSettings
from hires.engine.fabric import accelerator_there
from hires.engine.launch import processes
from hires.engine.optimizer import OptimizerSettings, SchedulerSettings
from hires.engine.settings import EvaluationSettings, TrainerSettings
from hires.instantiate import allowed_on_command_line, instantiate, plain_values
from hires.interfaces import ConfigError, MemoryPlan
from hires.memory.policies import AUTO
from hires.memory.settings import MemorySettings
from hires.models.backbone import BackboneSettings
from hires.models.trial import Trial
from hires.own_policies import know_those_of_settings
from hires.settings import Bounds, Settings

Count = Annotated[int, Bounds(1)]
Size = tuple[int, int]
USUAL_SIDE = 512  # pixels of a square, where none is given and none is searched for


@dataclass(frozen=True, kw_only=True)
class TopLevel(Settings):
    """The keys of a training that belong to no group."""

    image_size: Literal["auto"] | Count | tuple[Count, Count]
    batch_size: Count
    micro_batch_size: Literal["auto"] | Count | None
    seed: Annotated[int, Bounds(0, 2**63 - 1)]
    init_from: str | None


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a training is made of."""

    top: TopLevel
    data: DataSettings
    backbone: BackboneSettings
    model: Any
    evaluation: EvaluationSettings  # before the task, which takes over some of its values
    task: Any
    augmentation: Augment
    optimizer: OptimizerSettings
    scheduler: SchedulerSettings
    trainer: TrainerSettings
    memory: MemorySettings

    @property
    def image_size(self) -> Size:
        """(height, width) that the network sees in training, pixels. Raises ConfigError before it is planned."""
        size = self.top.image_size
        if isinstance(size, str):
            raise ConfigError(
                "image_size: got auto, which `hires train` and `hires autobatch` find; give a size here"
            )
        return as_size(size)

    @property
    def usual_size(self) -> Size:
        """The image size that is given, or a usual one where it is to be found, pixels."""
        size = self.top.image_size
        return (USUAL_SIDE, USUAL_SIDE) if isinstance(size, str) else as_size(size)

    @property
    def processes(self) -> int:
        """Processes that train together, each on a device of its own."""
        return processes(self.trainer)

    @property
    def share(self) -> int:
        """Samples of an optimizer batch that one process gets at most.

        Raises ConfigError where some would get none.
        """
        batch_size, count = self.top.batch_size, self.processes
        if batch_size < count:
            raise ConfigError(f"batch_size: got {batch_size}, allowed: at least one sample per device ({count})")
        return -(-batch_size // count)

    @property
    def shares(self) -> set[int]:
        """Samples of an optimizer batch that processes get."""
        return {self.share, self.top.batch_size // self.processes}

    @property
    def synchronized(self) -> bool:
        """Whether norms see the samples of all processes."""
        return getattr(self.model, "norm", None) == "sync"

    @property
    def sharded(self) -> bool:
        """Whether processes keep a part of the parameters each."""
        return self.trainer.strategy == "fsdp2" and self.processes > 1

    @property
    def micro_batch_size(self) -> int:
        """Samples in one forward and backward; all that a process has of the batch if nothing is said."""
        micro = self.top.micro_batch_size
        return micro if isinstance(micro, int) else self.share

    @property
    def to_be_planned(self) -> bool:
        """Whether anything is to be found that decides about memory."""
        said = (self.top.image_size, self.top.micro_batch_size, self.memory.activation_checkpointing)
        return self.memory.maximize is not None or AUTO in said

    @property
    def may_go_unplanned(self) -> bool:
        """Whether a plan is searched for by `auto` alone: no goal and no budget was said, as by default."""
        return self.memory.maximize is None and self.memory.budget in (None, AUTO)

    @property
    def described_share(self) -> str:
        """The samples of a process by the keys that they follow from."""
        if self.processes == 1:
            return f"batch_size, {self.share}"
        return f"{self.share}, the share of one of {self.processes} processes in batch_size={self.top.batch_size}"

    def given_plan(self) -> MemoryPlan:
        """A step as it is given, without policies.

        Raises ConfigError for a micro-batch above the batch of a process, and where a search has to say what a
        step is.
        """
        if self.to_be_planned:
            raise ConfigError(
                "memory: a step that has `auto` or memory.maximize in it is searched for by `hires autobatch` and "
                "`hires train`; give a micro-batch, an image size and policies here"
            )
        share, micro = self.share, self.micro_batch_size
        if micro > share:
            raise ConfigError(
                f"micro_batch_size: got {micro}, allowed: at most {self.described_share}; auto finds one"
            )
        return MemoryPlan(
            micro_batch_size=micro,
            accumulation_steps=-(-share // micro),
            image_size=self.image_size,
            precision=self.trainer.precision,
        )

    @property
    def window(self) -> Size:
        """(height, width) that the network sees in evaluation, pixels."""
        said = getattr(self.evaluation, self.window_key)
        return as_size(said) if said else self.image_size

    @property
    def window_key(self) -> str:
        """The key of `evaluation` that says what the network sees."""
        return "window" if self.evaluation.fit == "window" else "image_size"

    def trials(self, training: bool) -> list[Trial]:
        """The forward passes that a training or an evaluation is going to make."""
        micro, evaluation = self.micro_batch_size, self.evaluation
        last = Trial(f"evaluation.{self.window_key}", self.window, evaluation.batch_size, training=False)
        each = {count for share in self.shares for count in (min(micro, share), share % micro)}
        counts = sorted(each - {0}) if training else []
        return [*(Trial("image_size", self.image_size, count, training=True) for count in counts), last]


def read_recipe(cfg: DictConfig) -> Recipe:
    """The recipe of a configuration. Raises ConfigError for the first thing that is wrong in it."""
    absent = [field.name for field in fields(Recipe)[1:] + fields(TopLevel) if field.name not in cfg]
    if absent:
        raise ConfigError(f"{absent[0]}: the configuration lacks it; was it made by another version of hires?")
    allow = allowed_on_command_line()
    know_those_of_settings(plain_values(cfg.memory, "memory"))
    groups: dict[str, Any] = {field.name: field.type for field in fields(Recipe) if field.name != "top"}
    parts = {group: instantiate(cfg[group], group, allow) for group in groups}
    for group, kind in groups.items():
        if kind is not Any and not isinstance(parts[group], kind):
            raise ConfigError(f"{group}._target_: got {type(parts[group]).__name__}, allowed: a {kind.__name__}")
    recipe = Recipe(top=settings_of(TopLevel, cfg), **parts)
    _check_channels(recipe)
    _check_task(recipe.model, recipe.task)
    return recipe


def _check_channels(recipe: Recipe) -> None:
    """Raises ConfigError for a network that takes another number of channels than images have."""
    data, takes = recipe.data, recipe.backbone.in_channels
    if data.shown_channels == takes:
        return
    what = f"data.bands has {len(data.bands)}" if data.bands else f"data.channels is {data.channels}"
    raise ConfigError(
        f"backbone.in_channels: got {takes}, but {what}; set backbone.in_channels={data.shown_channels}"
    )


def check_share(recipe: Recipe) -> None:
    """Raises ConfigError for a model that several processes cannot train as it is configured."""
    shares = recipe.shares
    if recipe.synchronized and accelerator_there(recipe.trainer.accelerator) == "cpu":
        raise ConfigError(
            "model.norm: got sync, which torch has for CUDA only; with several processes on a CPU use group, or "
            "frozen with pretrained weights"
        )
    parts = {-(-share // recipe.micro_batch_size) for share in shares}
    if recipe.synchronized and not recipe.to_be_planned and len(parts) > 1:
        raise ConfigError(
            f"batch_size: got {recipe.top.batch_size}, of which processes have {min(shares)} or {max(shares)} "
            "samples, and other numbers of micro-batches; model.norm=sync needs as many in all"
        )


def of_one_process(cfg: DictConfig, share: int) -> DictConfig:
    """The configuration of a training by which one process alone does what one of several does with its share."""
    cfg = cfg.copy()
    cfg.batch_size, cfg.trainer.devices, cfg.trainer.num_nodes = share, 1, 1
    return cfg


def _check_task(model: Any, task: Any) -> None:
    """Raises ConfigError for a network with the losses of another; classes of others that do not say pass."""
    wanted, got = getattr(model, "task", None), getattr(task, "kind", None)
    if wanted and got and wanted != got:
        raise ConfigError(f"task: got {got}, but the model ({type(model).__name__}) needs task={wanted}")


def check_multiple(key: str, size: Size, stride: int) -> None:
    """Raises ConfigError unless both sides are multiples of a model's stride."""
    if any(side % stride for side in size):
        near = [max(stride, round(side / stride) * stride) for side in size]
        raise ConfigError(f"{key}: got {list(size)}, allowed: multiples of {stride}, for example {near}")


def as_size(value: int | Size) -> Size:
    """One side of a square, or (height, width), as (height, width)."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])
