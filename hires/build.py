"""The composition root: the commands `train` and `evaluate`, from a configuration to what they leave."""

import logging
import signal
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from lightning_fabric import Fabric
from omegaconf import DictConfig
from rich.console import Console

from hires import report, resuming, runs
from hires.data.pixel_statistics import check_images, check_type, normalization_of
from hires.data.splits import SPLITS
from hires.engine.checkpointer import LAST, to_continue
from hires.engine.display import Display, Terminal, class_table, log_beside, log_to, show_metrics, show_summary
from hires.engine.files import write_json, write_text
from hires.engine.gauge import Gauge
from hires.engine.launch import launch
from hires.engine.lock import RunLock
from hires.engine.ranks import Ranks
from hires.engine.slurm import requeue
from hires.engine.stopping import Unsaved
from hires.engine.trainer import Trainer
from hires.interfaces import CommonError, ConfigError, ImageSource, Interrupted, MemoryPlan, Sample
from hires.memory.limit import Limit
from hires.memory.profile import CONTEXT
from hires.observed import Observed, noted
from hires.own_policies import know_those_of_plan
from hires.plans import enforced, fix_malloc, planned, searches
from hires.preparation import Prepared, Surroundings, prepare, save_plan
from hires.provenance import Start, note_start
from hires.recipe import Recipe, check_share, read_recipe
from hires.results import noted_at_stop, result_of_command, training_result
from hires.run_classes import save_classes
from hires.run_statistics import save_normalization
from hires.sharding import check_sharding, shard_learner
from hires.trained import kept_normalization, open_run
from hires.unplanned import known_budget
from hires.wiring import make_evaluation

log = logging.getLogger(__name__)


def train(cfg: DictConfig) -> dict[str, Any]:
    """Trains as configured, or resumes a run; returns what it writes to result.json.

    With several processes each comes here, and the main one writes and shows.
    """
    console = Terminal()
    log_to(console, None)
    cfg, resumed = resuming.continued(cfg)
    recipe = read_recipe(cfg)
    check_sharding(recipe)
    if recipe.processes > 1:
        check_share(recipe)
    fabric, ranks = launch(recipe.trainer)
    try:
        with RunLock() as lock, ranks:
            if not ranks.main:
                console = Terminal(quiet=True, force_terminal=False)
                log_beside(ranks.rank)
            with _stops_told():
                ready = _made_ready(cfg, recipe, resumed, fabric, ranks, console, lock)
            with closing(ready.prepared.trainer.reporter.journal):
                return _trained(*ready)
    except Interrupted as stop:
        if ranks.main and stop.number == signal.SIGUSR1:
            if isinstance(stop, Unsaved):
                log.error("The job is not put into SLURM's queue again: it would come no further; make room first")
            else:
                requeue()
        raise


class _Ready(NamedTuple):
    """A training before its next step, and what it came from."""

    cfg: DictConfig  # with what the plan has found
    recipe: Recipe
    source: ImageSource
    prepared: Prepared
    around: Surroundings
    limit: Limit


@contextmanager
def _stops_told() -> Iterator[None]:
    """Says that a signal has come before there was anything to save."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stop:
        name = stop if isinstance(stop, Interrupted) else signal.SIGINT.name
        log.info("%s: stopped before the first step: there is nothing to save", name)
        raise


def _made_ready(
    cfg: DictConfig,
    recipe: Recipe,
    resumed: Path | None,
    fabric: Fabric | None,
    ranks: Ranks,
    console: Console,
    lock: RunLock,
) -> _Ready:
    source = ranks.first_here(lambda: recipe.data.source("train"))
    ranks.by_main(lambda: check_images(source))
    resumed, run_dir = ranks.by_main(lambda: (resumed, lock.take(resumed or runs.new_run_dir(cfg.run_dir))))
    cfg.run_dir = str(run_dir)
    if ranks.main:
        log_to(console, run_dir / "train.log")
    log.info("%s %s", "Resuming" if resumed else "Writing to", run_dir)
    if resumed and ranks.main:
        resuming.tell_changes(resumed, cfg)
    if ranks.size > 1:
        log.info("%d processes, %d of them here", ranks.size, ranks.here)
    cfg, plan = _planned(cfg, recipe, source, resumed, ranks)
    recipe = read_recipe(cfg)
    if ranks.size > 1:
        check_share(recipe)  # again, by what the plan has found
    normalization = ranks.by_main(
        lambda: kept_normalization(run_dir, cfg, recipe) if resumed else normalization_of(recipe.data, source)
    )
    # from here on memory counts; the limit begins later, since loading a checkpoint takes its weights twice
    limit = Limit(enforced(recipe, plan), recipe.trainer.accelerator)
    gauge = Gauge(recipe.trainer.accelerator, before=limit.before, context=CONTEXT["cuda"], limit=limit.most)
    checkpoint = ranks.by_main(lambda: to_continue((run_dir / runs.LAST).parent))
    if resumed and checkpoint is None:
        log.info("%s has no checkpoint yet: starting at step 1", run_dir)
    observed = Observed()
    around = Surroundings(run_dir, console, ranks, fabric, gauge, checkpoint, normalization, observed)
    prepared = ranks.together(lambda: prepare(cfg, recipe, source, plan, around))
    return _Ready(cfg, recipe, source, prepared, around, limit)


def _trained(
    cfg: DictConfig, recipe: Recipe, source: ImageSource, prepared: Prepared, around: Surroundings, limit: Limit
) -> dict[str, Any]:
    """Trains what is prepared, and writes what a run leaves."""
    learner, display, trainer, batches, ladder, sources = prepared
    run_dir, console, ranks, _, gauge, checkpoint, normalization, observed = around
    ranks.spread(learner.task, learner.average.module)
    if recipe.sharded:
        ranks.together(lambda: shard_learner(recipe, learner, ladder.plan))
    if ranks.main:
        save_normalization(normalization, run_dir)
        save_classes(source, run_dir)
        runs.save_config(cfg, run_dir)  # only now is the directory a run: whatever was wrong has been said
        save_plan(run_dir, ladder.plan)
    over = (not len(batches) or trainer.exhausted) and not _owes_evaluation(trainer)
    if ranks.by_main(lambda: over and (run_dir / "result.json").exists()):
        log.info("Nothing to do: the training ended at step %d", trainer.progress.step)
        return training_result(run_dir, trainer, ladder.plan, recipe.top.batch_size, gauge.peaks(ranks))
    start = Start(trainer.progress.step, checkpoint is not None, recipe.top.seed, ranks.size)
    ranks.by_main(lambda: note_start(run_dir, start, sources))
    try:
        with limit, gauge, observed.fitting(trainer.stopwatch):
            _fit(trainer, batches, display, run_dir)
    except Interrupted:
        if ranks.main:
            device, at = learner.fabric.device.type, noted_at_stop(trainer, gauge)
            report.after_stop(run_dir, observed, recipe.data, device, at)
        raise
    show_metrics(console, trainer.progress.metrics)
    ranks.by_main(trainer.checkpointer.raise_failed)
    outcome = training_result(run_dir, trainer, ladder.plan, recipe.top.batch_size, gauge.peaks(ranks))
    if ranks.main:
        write_json(run_dir / "result.json", outcome)
        report.after_training(
            run_dir, observed, recipe.data, normalization, learner.fabric.device.type, trainer.progress.best_step
        )
    show_summary(console, outcome, {"weights": run_dir / "checkpoints", "report": run_dir / report.PAGE})
    log.info("Done: %s", run_dir)
    trainer.stopping.settle()  # a signal after the last step: of a sweep, no other job begins
    return outcome


def _planned(
    cfg: DictConfig, recipe: Recipe, source: ImageSource, resumed: Path | None, ranks: Ranks
) -> tuple[DictConfig, MemoryPlan]:
    """The plan that the main process finds, within the budget of the one that has least."""
    if ranks.size == 1:
        cfg, plan = planned(cfg, recipe, source, resumed)
    else:
        cfg, plan = _agreed(cfg, recipe, source, resumed, ranks)
    fix_malloc(recipe, plan)
    return cfg, plan


def _agreed(
    cfg: DictConfig, recipe: Recipe, source: ImageSource, resumed: Path | None, ranks: Ranks
) -> tuple[DictConfig, MemoryPlan]:
    search = ranks.by_main(lambda: searches(recipe, resumed))
    known = ranks.gather(ranks.together(lambda: known_budget(recipe))) if search else []
    budgets = [budget for budget in known if budget is not None]
    budget = min(budgets) if budgets else None  # which no search can be made without
    given = None if budget is None else lambda: budget
    cfg, plan = ranks.by_main(lambda: planned(cfg, recipe, source, resumed, given))
    ranks.together(lambda: know_those_of_plan(plan))
    return cfg, plan


def _owes_evaluation(trainer: Trainer) -> bool:
    """Whether the run stopped between its last step and what follows, or lost what is after it."""
    step = trainer.progress.step
    return trainer.routine.evaluates(step) and trainer.progress.evaluated_step != step


def _fit(trainer: Trainer, batches: Iterable[list[Sample]], display: Display, run_dir: Path) -> None:
    try:
        with display, trainer.stopping:
            trainer.fit(batches)
    except Interrupted as stop:
        if LAST in trainer.checkpointer.failed:
            what = "%s: stopped after step %d, which is not on disk; %s"
            log.error(what, stop, trainer.progress.step, trainer.checkpointer.kept)
            raise Unsaved(stop.number) from None
        what = "%s: stopped after step %d, which %s holds; resume=%s goes on from there"
        log.info(what, stop, trainer.progress.step, run_dir / runs.LAST, run_dir)
        raise
    except CommonError:  # as one that has diverged
        log.error("What there is to go on from: %s", trainer.checkpointer.kept)
        raise
    finally:
        trainer.reporter.journal.close()  # what follows reads it


def evaluate(cfg: DictConfig) -> dict[str, Any]:
    """Evaluates a run's weights on whole images; returns what it writes to result.json."""
    console = Terminal()
    log_to(console, None)
    run = open_run(cfg)
    run_dir, checkpoint, recipe, normalization = run
    if not recipe.data.has_split(cfg.split):
        named = ", ".join(split for split in SPLITS if recipe.data.has_split(split))
        raise ConfigError(f"split: got {cfg.split}, but the data of the run has images for {named} only")
    source = recipe.data.source(cfg.split)
    check_type(source, normalization)
    check_images(source)
    task, fabric = run.placed_task(source.classes)
    evaluator = recipe.task.evaluator(source.classes)
    notes = noted(evaluator)
    with Display(console, max_steps=0, split=cfg.split) as display:
        evaluation = make_evaluation(recipe, source, fabric, display.evaluating, evaluator=evaluator, notes=notes)
        metrics = evaluation(task)
    show_metrics(console, metrics)
    folder = run_dir / "evaluate" / f"{cfg.split}-{checkpoint.stem}"
    outcome = {
        **result_of_command("evaluate", run_dir, metrics),
        "split": cfg.split,
        "checkpoint": str(checkpoint),
        "evaluation": asdict(recipe.evaluation),
    }
    write_json(folder / "result.json", outcome)
    write_text(folder / "classes.csv", class_table(metrics))
    report.after_evaluation(
        run_dir,
        folder,
        source,
        recipe.data,
        normalization,
        notes.evidence(),
        metrics,
        cfg.split,
        checkpoint,
        fabric.device.type,
    )
    log.info("Done: %s", folder)
    return outcome
