"""Composition root: the commands, from a configuration to what they leave in the run directory."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig
from rich.console import Console

from hires import runs
from hires.data.loader import StepLoader, StepSampler
from hires.data.pixel_statistics import assumed, check_type, normalization_of
from hires.data.splits import SPLITS
from hires.data.windows import windows_in_epoch
from hires.engine.checkpointer import read, weights
from hires.engine.display import Display, class_table, log_to, show_metrics
from hires.engine.fabric import make_fabric
from hires.engine.files import write_json, write_text
from hires.engine.gauge import Gauge
from hires.engine.journal import Journal
from hires.engine.recovery import Ladder, described
from hires.engine.reporter import Reporter
from hires.engine.trainer import Routine, Trainer
from hires.instantiate import allowed_on_command_line, instantiate
from hires.interfaces import ConfigError, ImageSource, MemoryPlan, Normalization
from hires.memory.limit import Limit
from hires.memory.profile import CONTEXT
from hires.plans import PLAN, enforced, plan_text, planned
from hires.recipe import Recipe, read_recipe
from hires.wiring import (
    Learner,
    make_batches,
    make_dataset,
    make_evaluation,
    make_learner,
    make_task,
    make_update,
    move,
    with_policies,
    with_rungs,
)

log = logging.getLogger(__name__)


def train(cfg: DictConfig) -> dict[str, Any]:
    """Trains as configured, or resumes a run; returns what it writes to result.json."""
    console = Console()
    log_to(console, None)
    cfg, resumed = runs.continued(cfg)
    recipe = read_recipe(cfg)
    source = recipe.data.source("train")
    run_dir = resumed or runs.new_run_dir(cfg.run_dir)
    cfg.run_dir = str(run_dir)
    log_to(console, run_dir / "train.log")
    log.info("%s %s", "Resuming" if resumed else "Writing to", run_dir)
    cfg, plan = planned(cfg, recipe, source, resumed)
    recipe = read_recipe(cfg)
    normalization = runs.load_normalization(run_dir) or normalization_of(recipe.data, source)
    # from here on memory counts; the limit begins later, since loading a checkpoint takes its weights twice
    limit = Limit(enforced(recipe, plan), recipe.trainer.accelerator)
    gauge = Gauge(recipe.trainer.accelerator, before=limit.before, context=CONTEXT["cuda"])
    display, trainer, batches, ladder = _prepare(cfg, recipe, source, normalization, plan, run_dir, console, gauge)
    runs.save_normalization(normalization, run_dir)
    runs.save_config(cfg, run_dir)  # only now is the directory a run: whatever was wrong has been said
    save_plan(run_dir, ladder.plan)
    if (not len(batches) or trainer.exhausted) and (run_dir / "result.json").exists():
        log.info("Nothing to do: the training ended at step %d", trainer.progress.step)
        return training_result(run_dir, trainer, ladder.plan, recipe.top.batch_size, gauge)
    with limit, gauge:
        _fit(trainer, batches, display, run_dir)
    show_metrics(console, trainer.progress.metrics)
    outcome = training_result(run_dir, trainer, ladder.plan, recipe.top.batch_size, gauge)
    write_json(run_dir / "result.json", outcome)
    log.info("Done: %s", run_dir)
    return outcome


def _fit(trainer: Trainer, batches: StepLoader, display: Display, run_dir: Path) -> None:
    try:
        with display:
            trainer.fit(batches)
    except KeyboardInterrupt:
        log.info(
            "Interrupted at step %d; resume=%s goes on from the last checkpoint", trainer.progress.step, run_dir
        )
        raise
    finally:
        trainer.reporter.journal.close()


def _prepare(
    cfg: DictConfig,
    recipe: Recipe,
    source: ImageSource,
    normalization: Normalization,
    plan: MemoryPlan,
    run_dir: Path,
    console: Console,
    gauge: Gauge,
) -> tuple[Display, Trainer, StepLoader, Ladder]:
    """Everything for the first step, or for the one after the run's last checkpoint, whose rung it takes."""
    fabric = make_fabric(recipe.trainer.accelerator, recipe.trainer.precision)
    checkpoint = run_dir / runs.LAST
    check_type(source, normalization)  # of a resumed run the images may have changed
    resumed = checkpoint.exists()
    learner = make_learner(recipe, source, fabric, resumed=resumed, normalization=normalization)
    ladder = Ladder(with_rungs(recipe, learner, plan))
    windows = windows_in_epoch(source, recipe.image_size, recipe.data)
    routine = make_routine(recipe, source.classes, steps_per_epoch=-(-windows // recipe.top.batch_size))
    dataset = make_dataset(recipe, source, normalization)
    loggers = list(instantiate(cfg.logger, "logger", allowed_on_command_line()).values())
    journal = Journal(run_dir / "metrics.jsonl", loggers)
    checkpointer = learner.checkpointer(checkpoint.parent, ladder)
    if resumed:
        checkpointer.load(checkpoint)
    journal.rewind(learner.progress.step)
    start = learner.progress.step
    display = Display(console, routine.max_steps, start)
    trainer = Trainer(
        update=gauge.watching(
            make_update(recipe, learner, ladder, routine.max_steps, partial(save_plan, run_dir))
        ),
        evaluate=_validation(recipe, learner, normalization, display),
        checkpointer=checkpointer,
        reporter=Reporter(
            journal=journal,
            display=display,
            learning_rate=lambda: learner.optimizer.param_groups[-1]["lr"],
        ),
        routine=routine,
        progress=learner.progress,
    )
    sampler = StepSampler(windows, recipe.top.batch_size, start, routine.max_steps)
    ladder.plan = with_policies(
        recipe, learner, ladder.plan, lambda: [dataset[key] for key in next(iter(sampler), [])]
    )
    log.info("A step: %s", described(ladder.plan))
    return display, trainer, make_batches(dataset, sampler, recipe, fabric), ladder


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
    )


def _validation(
    recipe: Recipe, learner: Learner, normalization: Normalization, display: Display
) -> Callable[[], dict[str, float]]:
    """Evaluates the averaged weights on the validation split; gives no metrics where there is none."""
    if not recipe.data.has_split("val"):
        log.info("No validation split: nothing is evaluated, and `best` is the last checkpoint")
        return dict
    source = recipe.data.source("val")
    check_type(source, normalization)
    evaluation = make_evaluation(recipe, source, learner.fabric, display.evaluating)
    return lambda: evaluation(learner.average.module)


def normalization_of_run(run_dir: Path, recipe: Recipe, source: ImageSource) -> Normalization:
    """How a run normalises the pixels of a source. Raises DataError for pixels of another type."""
    found = runs.load_normalization(run_dir)
    if found is None:  # made by a version that took 8-bit images alone
        found = assumed(recipe.data, np.dtype(np.uint8))
    check_type(source, found)
    return found


def evaluate(cfg: DictConfig) -> dict[str, Any]:
    """Evaluates a run's weights on whole images; returns what it writes to result.json."""
    console = Console()
    log_to(console, None)
    run_dir = runs.existing_run(cfg.run)
    recipe = read_recipe(runs.with_given(runs.load_config(run_dir), cfg))
    if not recipe.data.has_split(cfg.split):
        named = ", ".join(split for split in SPLITS if recipe.data.has_split(split))
        raise ConfigError(f"split: got {cfg.split}, but the data of the run has images for {named} only")
    source = recipe.data.source(cfg.split)
    checkpoint = runs.checkpoint_path(run_dir, cfg.checkpoint)
    state = read(checkpoint)
    fabric = make_fabric(recipe.trainer.accelerator, recipe.trainer.precision)
    normalization = normalization_of_run(run_dir, recipe, source)
    task = make_task(recipe, source.classes, training=None, load_pretrained=False, normalization=normalization)
    task.load_state_dict(weights(state))
    move(task, recipe, fabric)
    with Display(console, max_steps=0) as display:
        metrics = make_evaluation(recipe, source, fabric, display.evaluating)(task)
    show_metrics(console, metrics)
    folder = run_dir / "evaluate" / f"{cfg.split}-{checkpoint.stem}"
    outcome = {
        **result("evaluate", run_dir, metrics),
        "split": cfg.split,
        "checkpoint": str(checkpoint),
        "evaluation": asdict(recipe.evaluation),
    }
    write_json(folder / "result.json", outcome)
    write_text(folder / "classes.csv", class_table(metrics))
    log.info("Done: %s", folder)
    return outcome


def training_result(
    run_dir: Path, trainer: Trainer, plan: MemoryPlan, batch_size: int, gauge: Gauge
) -> dict[str, Any]:
    """What result.json of a training holds."""
    seconds, progress = trainer.stopwatch.median(), trainer.progress
    return {
        **result("train", run_dir, progress.metrics),
        "peak_bytes": peak_bytes(plan, gauge),
        "best": {"metric": trainer.routine.metric, "value": progress.best, "step": progress.best_step},
        "steps": progress.step,
        "seconds_per_step": seconds,
        "images_per_second": batch_size / seconds if seconds else None,
        "plan": asdict(plan),
    }


def peak_bytes(plan: MemoryPlan, gauge: Gauge) -> dict[str, Any]:
    """Predicted, and measured in the first steps; on a CPU a probe may have measured what was allocated."""
    predicted, probed = plan.predicted, plan.measured
    return {
        "predicted": asdict(predicted) if predicted else {"allocated": None, "reserved": None},
        "allocated": gauge.allocated or (probed and probed.allocated),
        "reserved": gauge.reserved,
    }


def result(command: str, run_dir: Path, metrics: dict[str, float]) -> dict[str, Any]:
    """What result.json of every command holds; what was not measured is null."""
    peaks = {"predicted": {"allocated": None, "reserved": None}, "allocated": None, "reserved": None}
    return {
        "command": command,
        "run_dir": str(run_dir),
        "metrics": metrics,
        "peak_bytes": peaks,
        "seconds_per_step": None,
        "images_per_second": None,
        "plan": None,
    }
