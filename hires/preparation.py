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
from hires.engine.display import Display
from hires.engine.fabric import make_fabric
from hires.engine.files import write_text
from hires.engine.gauge import Gauge
from hires.engine.journal import Journal, NoJournal
from hires.engine.ranks import Ranks
from hires.engine.recovery import Ladder, described
from hires.engine.reporter import Reporter
from hires.engine.trainer import Routine, Trainer
from hires.instantiate import allowed_on_command_line, instantiate
from hires.interfaces import ConfigError, ImageSource, MemoryPlan, Normalization
from hires.learner import Learner, make_learner
from hires.observed import Observed, noted, waits
from hires.plans import PLAN, plan_text
from hires.recipe import Recipe
from hires.wiring import make_batches, make_dataset, make_evaluation, make_update

log = logging.getLogger(__name__)


class Surroundings(NamedTuple):
    """Where a training takes place."""

    run_dir: Path
    console: Console
    ranks: Ranks
    fabric: Fabric | None  # None: to be made
    gauge: Gauge
    begun: bool  # whether there is a checkpoint to go on from
    normalization: Normalization
    observed: Observed


class Prepared(NamedTuple):
    """A training before its next step."""

    learner: Learner
    display: Display
    trainer: Trainer
    batches: StepLoader
    ladder: Ladder


def prepare(
    cfg: DictConfig, recipe: Recipe, source: ImageSource, plan: MemoryPlan, around: Surroundings
) -> Prepared:
    """Everything for the first step, or for the one after the run's last checkpoint, whose rung it takes."""
    run_dir, console, ranks, fabric, gauge, begun, normalization, observed = around
    fabric = fabric or make_fabric(recipe.trainer.accelerator, recipe.trainer.precision)
    checkpoint = run_dir / runs.LAST
    check_type(source, normalization)  # of a resumed run the images may have changed
    learner = make_learner(recipe, source, fabric, resumed=begun, normalization=normalization)
    ranks.seed(recipe.top.seed)
    ladder = Ladder(with_rungs(recipe, learner, plan))
    windows = windows_in_epoch(source, recipe.image_size, recipe.data)
    routine = make_routine(recipe, source.classes, steps_per_epoch=-(-windows // recipe.top.batch_size))
    dataset = make_dataset(recipe, source, normalization)
    journal = _journal(cfg, run_dir, ranks)
    checkpointer = learner.checkpointer(checkpoint.parent, ladder, ranks)
    if begun:
        checkpointer.load(checkpoint)
    journal.rewind(learner.progress.step)
    start = learner.progress.step
    budget = plan.budget or gauge.limit
    display = Display(console, routine.max_steps, start, lambda: (*gauge.so_far(), budget))
    on_change = partial(save_plan, run_dir) if ranks.main else lambda plan: None
    split = observed.split
    split.wait = waits(fabric.device)
    update = make_update(recipe, learner, ladder, routine.max_steps, on_change, ranks, split)
    trainer = Trainer(
        update=split.watching(gauge.watching(update)),
        evaluate=_validation(recipe, learner, around, display, routine.metric),
        checkpointer=split.saves(checkpointer),
        reporter=Reporter(
            journal=journal,
            display=display,
            learning_rate=lambda: learner.optimizer.param_groups[-1]["lr"],
        ),
        routine=routine,
        progress=learner.progress,
    )
    split.leave_out = trainer.stopwatch.leave_out
    sampler = StepSampler(windows, recipe.top.batch_size, start, routine.max_steps, ranks.rank, ranks.size)
    ladder.plan = with_policies(
        recipe, learner, ladder.plan, lambda: [dataset[key] for key in next(iter(sampler), [])]
    )
    log.info("A step: %s", described(ladder.plan))
    return Prepared(learner, display, trainer, make_batches(dataset, sampler, recipe, fabric), ladder)


def _journal(cfg: DictConfig, run_dir: Path, ranks: Ranks) -> Journal | NoJournal:
    if not ranks.main:
        return NoJournal()
    loggers = list(instantiate(cfg.logger, "logger", allowed_on_command_line()).values())
    return Journal(run_dir / "metrics.jsonl", loggers)


def save_plan(run_dir: Path, plan: MemoryPlan) -> None:
    """Writes plan.yaml: how steps are carried out from now on."""
    write_text(run_dir / PLAN, plan_text(plan))


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
        evaluate_every=recipe.evaluation.interval(steps_per_epoch),
        metric=metric,
        patience=settings.patience,
        batch_size=recipe.top.batch_size,
    )


def _validation(
    recipe: Recipe, learner: Learner, around: Surroundings, display: Display, metric: str
) -> Callable[[], dict[str, float]]:
    """Evaluates the averaged weights on the validation split; gives no metrics where there is none."""
    if not recipe.data.has_split("val"):
        log.info("No validation split: nothing is evaluated, and `best` is the last checkpoint")
        return dict
    source = recipe.data.source("val")
    check_type(source, around.normalization)
    check_images(source)  # of all, since it is long until they are evaluated
    evaluator, ranks = recipe.task.evaluator(source.classes), around.ranks
    notes = noted(evaluator)
    evaluation = make_evaluation(recipe, source, learner.fabric, display.evaluating, ranks, evaluator, notes)
    evaluate = around.observed.evaluating(source, evaluation, notes, metric)

    def validate() -> dict[str, float]:
        learner.level(ranks)
        return evaluate(learner.average.module, learner.progress.step)

    return validate
