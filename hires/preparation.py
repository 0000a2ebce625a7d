"""Makes all that a training needs before its first step, or before the one after its last checkpoint."""

import logging
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lightning_fabric import Fabric
from omegaconf import DictConfig
from rich.console import Console

from hires import runs
from hires.applying import with_policies, with_rungs
from hires.data.loader import StepLoader, StepSampler
from hires.data.pixel_statistics import check_images, check_type
from hires.data.windows import windows_in_epoch
from hires.engine.checkpointer import Checkpointer
from hires.engine.display import Display
from hires.engine.fabric import make_fabric
from hires.engine.files import write_text
from hires.engine.gauge import Gauge
from hires.engine.journal import Journal, NoJournal
from hires.engine.ranks import Ranks
from hires.engine.recovery import Ladder, described
from hires.engine.reporter import Reporter
from hires.engine.stopping import Stopping
from hires.engine.trainer import Routine, Trainer
from hires.instantiate import allowed_on_command_line, instantiate
from hires.interfaces import ConfigError, DataError, ImageSource, MemoryPlan, Normalization
from hires.learner import Learner, make_learner
from hires.observed import Observed, noted, waits
from hires.plans import PLAN, plan_text
from hires.recipe import Recipe
from hires.wiring import make_batches, make_dataset, make_evaluation, make_guard, make_update

log = logging.getLogger(__name__)


class Surroundings(NamedTuple):
    """Where a training takes place."""

    run_dir: Path
    console: Console
    ranks: Ranks
    fabric: Fabric | None  # None: to be made
    gauge: Gauge
    checkpoint: Path | None  # to go on from
    normalization: Normalization
    observed: Observed


class Prepared(NamedTuple):
    """A training before its next step."""

    learner: Learner
    display: Display
    trainer: Trainer
    batches: StepLoader
    ladder: Ladder
    sources: dict[str, ImageSource]  # of the splits that it uses


def prepare(
    cfg: DictConfig, recipe: Recipe, source: ImageSource, plan: MemoryPlan, around: Surroundings
) -> Prepared:
    """Everything for the first step, or for the one after the run's last checkpoint, whose rung it takes."""
    ranks, gauge, normalization = around.ranks, around.gauge, around.normalization
    fabric = around.fabric or make_fabric(recipe.trainer.accelerator, recipe.trainer.precision)
    check_type(source, normalization)  # of a resumed run the images may have changed
    resumed = around.checkpoint is not None
    learner = make_learner(recipe, source, fabric, resumed=resumed, normalization=normalization)
    ranks.seed(recipe.top.seed)
    ladder = Ladder(with_rungs(recipe, learner, plan))
    windows = windows_in_epoch(source, recipe.image_size, recipe.data)
    routine = make_routine(recipe, source.classes, steps_per_epoch=-(-windows // recipe.top.batch_size))
    dataset = make_dataset(recipe, source, normalization)
    journal = _journal(cfg, around.run_dir, ranks)
    checkpointer = _taken_up(learner, ladder, journal, around)
    start, budget = learner.progress.step, plan.budget or gauge.limit
    display = Display(around.console, routine.max_steps, start, lambda: (*gauge.so_far(), budget))
    sources = {"train": source, **_validation_source(recipe, normalization)}
    reporter = Reporter(
        journal=journal,
        display=display,
        learning_rate=lambda: learner.optimizer.param_groups[-1]["lr"],
        skipped=lambda: learner.progress.skipped,
    )
    trainer = _trainer(recipe, learner, ladder, routine, checkpointer, reporter, sources.get("val"), around)
    sampler = StepSampler(windows, recipe.top.batch_size, start, routine.max_steps, ranks.rank, ranks.size)
    ladder.plan = with_policies(
        recipe, learner, ladder.plan, lambda: [dataset[key] for key in next(iter(sampler), [])]
    )
    log.info("A step: %s", described(ladder.plan))
    return Prepared(learner, display, trainer, make_batches(dataset, sampler, recipe, fabric), ladder, sources)


def _taken_up(
    learner: Learner, ladder: Ladder, journal: Journal | NoJournal, around: Surroundings
) -> Checkpointer:
    """What saves the run, after all has been set to its checkpoint, if there is one."""
    folder = (around.run_dir / runs.LAST).parent
    checkpointer = learner.checkpointer(folder, ladder, around.ranks, journal)
    checkpointer.witness = around.run_dir / runs.CONFIG
    if around.checkpoint is not None:
        checkpointer.load(around.checkpoint)
    journal.rewind(learner.progress.step)
    return checkpointer


def _trainer(
    recipe: Recipe,
    learner: Learner,
    ladder: Ladder,
    routine: Routine,
    checkpointer: Checkpointer,
    reporter: Reporter,
    validation: ImageSource | None,
    around: Surroundings,
) -> Trainer:
    """The loop with its steps, evaluations and saves, all of which are timed and stop at a signal."""
    ranks, split, stopping = around.ranks, around.observed.split, Stopping(around.ranks)
    split.wait = waits(learner.fabric.device)
    on_change = partial(keep_plan, around.run_dir) if ranks.main else lambda plan: None
    guard = make_guard(recipe, learner, ranks)
    update = make_update(recipe, learner, ladder, routine.max_steps, on_change, ranks, guard, split)
    trainer = Trainer(
        update=split.watching(around.gauge.watching(update)),
        evaluate=_validation(recipe, learner, validation, around, reporter.display, routine.metric, stopping),
        checkpointer=split.saves(checkpointer),
        reporter=reporter,
        routine=routine,
        progress=learner.progress,
        stopping=stopping,
    )
    split.leave_out = trainer.stopwatch.leave_out
    return trainer


def _journal(cfg: DictConfig, run_dir: Path, ranks: Ranks) -> Journal | NoJournal:
    if not ranks.main:
        return NoJournal()
    loggers = list(instantiate(cfg.logger, "logger", allowed_on_command_line()).values())
    return Journal(run_dir / "metrics.jsonl", loggers)


def save_plan(run_dir: Path, plan: MemoryPlan) -> None:
    """Writes plan.yaml: how steps are carried out from now on."""
    write_text(run_dir / PLAN, plan_text(plan))


def keep_plan(run_dir: Path, plan: MemoryPlan) -> None:
    """As `save_plan`, in a training, which goes on where that fails: a checkpoint says which rung it is on."""
    try:
        save_plan(run_dir, plan)
    except DataError as error:
        log.error("%s", error)


def make_routine(recipe: Recipe, classes: tuple[str, ...], steps_per_epoch: int) -> Routine:
    """What happens at which step of a training. Raises ConfigError for a metric that no evaluation gives."""
    settings, metric = recipe.trainer, recipe.evaluation.metric or recipe.task.metric
    evaluator = recipe.task.evaluator(classes)
    known = [name for name in evaluator.compute() if name not in evaluator.no_goals]
    if metric not in known:
        near = get_close_matches(metric, known, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]}?" if near else ","
        raise ConfigError(f"evaluation.metric: got {metric}{hint} allowed: {', '.join(known)}")
    return Routine(
        max_steps=settings.steps(steps_per_epoch),
        log_every=settings.log_every,
        checkpoint_every=settings.checkpoint_every,
        checkpoint_minutes=settings.checkpoint_minutes,
        evaluate_every=recipe.evaluation.interval(steps_per_epoch),
        metric=metric,
        patience=settings.patience,
        batch_size=recipe.top.batch_size,
    )


def _validation_source(recipe: Recipe, normalization: Normalization) -> dict[str, ImageSource]:
    """The images of the validation split by its name, if there is one."""
    if not recipe.data.has_split("val"):
        log.info("No validation split: nothing is evaluated, and `best` is the last checkpoint")
        return {}
    source = recipe.data.source("val")
    check_type(source, normalization)
    check_images(source)  # of all, since it is long until they are evaluated
    return {"val": source}


def _validation(
    recipe: Recipe,
    learner: Learner,
    source: ImageSource | None,
    around: Surroundings,
    display: Display,
    metric: str,
    stopping: Stopping,
) -> Callable[[], dict[str, float]]:
    """Evaluates the averaged weights on the validation images; gives no metrics where there are none."""
    if source is None:
        return dict
    evaluator, ranks = recipe.task.evaluator(source.classes), around.ranks
    notes = noted(evaluator)
    evaluation = make_evaluation(
        recipe, source, learner.fabric, display.evaluating, ranks, stopping, evaluator, notes
    )
    evaluate = around.observed.evaluating(source, evaluation, notes, metric, keep=ranks.main)

    def validate() -> dict[str, float]:
        learner.level(ranks)
        with learner.average.whole() as task:
            return evaluate(task, learner.progress.step)

    return validate
