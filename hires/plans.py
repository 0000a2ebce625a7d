"""Where the plan of a training comes from: as it is given, from a file, or searched for."""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch
import yaml
from omegaconf import DictConfig, OmegaConf

from hires import hydra_job, runs
from hires.errors import HiresError
from hires.examples import Examples, examples_of
from hires.interfaces import ConfigError, DataError, ImageSource, MemoryPlan, Peaks
from hires.measured_memory import Measured, measure_memory
from hires.memory.policies import AUTO
from hires.ops.plain_yaml import read_plain
from hires.ops.process_memory import fix_threshold
from hires.own_policies import know_those_of_plan
from hires.planning import Planner, budget_of
from hires.recipe import USUAL_SIDE, Recipe, as_size, of_one_process, read_recipe
from hires.settings import checked, describe
from hires.sharding import refuse_search
from hires.simulated_training import device_of
from hires.unplanned import UNPLANNABLE, go_on_without

log = logging.getLogger(__name__)

PLAN = "plan.yaml"
T = TypeVar("T")
_DECIDED = (
    "micro_batch_size",
    "image_size",
    "trainer.precision",
    "memory.activation_checkpointing",
    "memory.maximize",
)
"""Settings that a plan decides."""
SPACIOUS = 0.5  # share of what is free up to which a step has room enough, however malloc keeps what is freed
_COUNTS = ("micro_batch_size", "accumulation_steps", "image_size", "evaluation_batch_size")


def planned(
    cfg: DictConfig,
    recipe: Recipe,
    source: ImageSource,
    resumed: Path | None,
    budget: Callable[[], int] | None = None,
) -> tuple[DictConfig, MemoryPlan]:
    """The plan of a training, and the configuration with what it found.

    `budget` gives the bytes of a process, where a plan is searched for; None: those of this one. A resumed run
    goes on with its own plan, unless the command line gives it another micro-batch or policies.
    """
    if resumed and (resumed / PLAN).is_file():
        plan, given = read_plan(resumed / PLAN), recipe.given_plan()
        return cfg, plan if _same(runs.load_config(resumed), cfg) else given
    if recipe.memory.plan:
        plan = _for_batch(read_plan(Path(recipe.memory.plan)), recipe)
        _tell_overruled(cfg, with_plan(cfg, plan, recipe.processes))
    elif recipe.to_be_planned:
        return _searched(cfg, recipe, source, budget)
    else:
        return cfg, recipe.given_plan()
    return with_plan(cfg, plan, recipe.processes), plan


def _searched(
    cfg: DictConfig, recipe: Recipe, source: ImageSource, budget: Callable[[], int] | None
) -> tuple[DictConfig, MemoryPlan]:
    """The plan that a search finds. Where `auto` alone asks for it, a training goes on if none can be made."""
    _check_device(recipe)
    if recipe.sharded and recipe.may_go_unplanned:
        return _unplanned(cfg, "trainer.strategy=fsdp2, and predictions are for whole parameters")
    unsaid, begin = recipe.may_go_unplanned and device_of(recipe) == "cpu", time.perf_counter()
    if unsaid and "memory.max_image_size" not in hydra_job.said():
        recipe = replace(recipe, memory=replace(recipe.memory, max_image_size=USUAL_SIDE))
    try:
        plan, planner, notes = find_plan(cfg, recipe, source, budget, probe=not unsaid)
    except UNPLANNABLE as error:
        if not recipe.may_go_unplanned:
            raise
        return _unplanned(cfg, str(error))
    except HiresError:
        raise
    except (
        Exception
    ) as error:  # of code that fake tensors cannot carry out; a real fault comes up in the first step
        if not recipe.may_go_unplanned:
            raise
        return _unplanned(cfg, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    took, pinned = time.perf_counter() - begin, planner.override(plan)
    log.info("Planned in %.0f s: %s To have it without a search: %s", took, " ".join(plan.reasons), pinned)
    for note in notes:
        log.info("%s", note)
    return with_plan(cfg, plan, recipe.processes), plan


def _unplanned(cfg: DictConfig, why: str) -> tuple[DictConfig, MemoryPlan]:
    cfg = go_on_without(cfg, why)
    return cfg, read_recipe(cfg).given_plan()


def _tell_overruled(cfg: DictConfig, settled: DictConfig) -> None:
    """Warns of what the command line says otherwise than the plan that it names."""
    said = hydra_job.said()
    for key in _DECIDED:
        given, decided = (OmegaConf.select(each, key) for each in (cfg, settled))
        if key in said and given != decided:
            log.warning("%s: %s is overruled by memory.plan, which has %s", key, given, decided)


def fix_malloc(recipe: Recipe, plan: MemoryPlan) -> None:
    """Has malloc give back what is freed, as in predictions, where a plan on a CPU was predicted to need much.

    It costs time, which a training need not spend that has room enough.
    """
    near = plan.predicted and plan.budget and plan.predicted.reserved > plan.budget * SPACIOUS
    if near and recipe.may_go_unplanned and device_of(recipe) == "cpu":
        fix_threshold()


def searches(recipe: Recipe, resumed: Path | None) -> bool:
    """Whether `planned` searches for a plan."""
    kept = resumed is not None and (resumed / PLAN).is_file()
    unplanned = recipe.sharded and recipe.may_go_unplanned
    return recipe.to_be_planned and not kept and not recipe.memory.plan and not unplanned


def _same(one: DictConfig, other: DictConfig) -> bool:
    """Whether two configurations say the same of how a step is carried out."""
    keys = ("micro_batch_size", "memory.activation_checkpointing", "image_size", "batch_size", "trainer.precision")
    processes = ("trainer.devices", "trainer.num_nodes")
    return all(OmegaConf.select(one, key) == OmegaConf.select(other, key) for key in keys) and all(
        OmegaConf.select(one, key, default=1) == OmegaConf.select(other, key, default=1) for key in processes
    )


def _check_device(recipe: Recipe) -> None:
    """Raises ConfigError where a training would not run on the device that it is planned for."""
    there = device_of(replace(recipe, memory=replace(recipe.memory, device=None)))
    if recipe.memory.device not in (None, there):
        raise ConfigError(
            f"memory.device: got {recipe.memory.device}, but the training runs on {there}; leave it at null, or "
            "let `hires autobatch` plan for the other and give the plan by memory.plan="
        )


def _for_batch(plan: MemoryPlan, recipe: Recipe) -> MemoryPlan:
    """A plan with the steps that a batch takes with it. Raises ConfigError for micro-batches above the batch."""
    micro, share = plan.micro_batch_size, recipe.share
    if micro > share and not recipe.memory.scale_batch_size:
        said = "batch_size is" if recipe.processes == 1 else "a process has at most"
        raise ConfigError(
            f"memory.plan: its micro-batches have {micro} samples, but {said} {share}; set "
            f"batch_size={micro * recipe.processes}, or memory.scale_batch_size=true to let a plan raise it"
        )
    rungs = tuple(_for_batch(rung, recipe) for rung in plan.rungs)
    return replace(plan, accumulation_steps=-(-share // micro), rungs=rungs)


def enforced(recipe: Recipe, plan: MemoryPlan) -> int | None:
    """Bytes that a training is held to: a budget that was given as a size or a fraction."""
    said = recipe.memory.budget
    if said is None or said == AUTO:
        return None
    if isinstance(said, float) and plan.budget and not recipe.memory.plan:
        return plan.budget  # less is free now than when the plan was made
    return budget_of(recipe)


def find_plan(
    cfg: DictConfig,
    recipe: Recipe,
    source: ImageSource | None = None,
    budget: Callable[[], int] | None = None,
    *,
    probe: bool = True,
) -> tuple[MemoryPlan, Planner, list[str]]:
    """Searches for the plan of a configuration, for the images of a source or those that it names.

    `budget` gives the bytes of a process; None: those of this one. With `probe` the plan is tried where the device
    is there; a prediction keeps a margin for what is not measured. Also how it was found, and what is to be said
    of it.
    """
    refuse_search(recipe)
    device = device_of(recipe)
    if device == "cpu" and probe:
        fix_threshold()  # so that little of the search's own memory stays with this process
    examples, notes = examples_of(recipe, source)
    there = device == "cpu" or torch.cuda.is_available()
    if not there:
        notes.append(
            "Predicted for CUDA: the device is not here, so that nothing was run. Not run on CUDA so far."
        )
    share, limit = recipe.share, recipe.memory.budget not in (None, AUTO)
    try_out = partial(_tried, cfg, examples, device, share, limit=limit)
    planner = Planner(recipe, examples, device, try_out if there and probe else None, budget)
    return planner.plan(), planner, notes


def _tried(
    cfg: DictConfig, examples: Examples, device: str, share: int, plan: MemoryPlan, limit: bool
) -> Measured:
    """What three steps of a plan take on the device, in a process of its own that is held to the budget.

    Steps of two micro-batches, with which all is there, of the share of the batch that a process has; their
    seconds are scaled to all of it.
    """
    cfg = of_one_process(with_plan(cfg, plan), max(share, plan.micro_batch_size))
    batch_size, cfg.batch_size = cfg.batch_size, min(cfg.batch_size, 2 * plan.micro_batch_size)
    cfg.trainer.accelerator = device
    measured = measure_memory("the plan", cfg, examples, limit=plan.budget if limit else None)
    seconds = measured.seconds
    return measured._replace(seconds=seconds and seconds * batch_size / cfg.batch_size)


def as_a_training_would(cfg: DictConfig) -> DictConfig:
    """`hires autobatch` without its own goal where that lacks an image size, unless it was said."""
    unsaid = "memory.maximize" not in hydra_job.said()
    if cfg.image_size == AUTO and cfg.memory.maximize == "batch" and unsaid:
        cfg = cfg.copy()
        cfg.memory.maximize = None
    return cfg


def with_plan(cfg: DictConfig, plan: MemoryPlan, processes: int = 1) -> DictConfig:
    """A configuration that says what a plan has found for each of some processes."""
    cfg = cfg.copy()
    cfg.micro_batch_size = plan.micro_batch_size
    if cfg.image_size == AUTO or as_size(cfg.image_size) != plan.image_size:
        cfg.image_size = list(plan.image_size)
    if plan.micro_batch_size > -(-cfg.batch_size // processes):
        cfg.batch_size = plan.micro_batch_size * processes
    cfg.trainer.precision = plan.precision
    if plan.evaluation_batch_size is not None:
        cfg.evaluation.batch_size = plan.evaluation_batch_size
    cfg.memory.activation_checkpointing = dict(plan.policies)
    cfg.memory.maximize = cfg.memory.plan = None
    return cfg


def plan_text(plan: MemoryPlan) -> str:
    """A plan as YAML."""
    return OmegaConf.to_yaml(asdict(plan))


def read_plan(path: Path) -> MemoryPlan:
    """A plan from a file. Raises DataError for what is none, ConfigError for policies that are not allowed."""
    try:
        plan = _made(MemoryPlan, read_plain(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DataError(f"memory.plan: {path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"memory.plan: {path}: not a plan: {' '.join(str(error).split())}") from error
    know_those_of_plan(plan)
    return plan


def _made(kind: type[T], content: Any) -> T:
    """A plan, or peaks, of a mapping."""
    hints = get_type_hints(kind)
    if not isinstance(content, dict) or not set(content) <= set(hints):
        raise ValueError(f"it must have {', '.join(hints)} alone")
    return kind(**{name: _value(name, value, hints[name]) for name, value in content.items()})


def _value(name: str, value: Any, hint: Any) -> Any:
    if name in ("predicted", "measured", "evaluation") and value is not None:
        return _made(Peaks, value)
    if name == "rungs":
        return tuple(_made(MemoryPlan, rung) for rung in value)
    try:
        found = checked(value, hint)
    except ValueError:
        raise ValueError(f"{name}: got {value!r}, allowed: {describe(hint)}") from None
    counts = found if isinstance(found, tuple) else (found,)
    if name in _COUNTS and any(count is not None and count < 1 for count in counts):
        raise ValueError(f"{name}: got {value!r}, allowed: 1 and more")
    return found
