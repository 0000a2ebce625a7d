"""Makes the parts of a training or evaluation from a recipe and connects them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lightning_fabric import Fabric
from torch import Tensor

from hires.applying import exchange_plan
from hires.data.loader import StepLoader, StepSampler, make_loader
from hires.data.windows import ResizeDataset, TrainingDataset, WindowDataset
from hires.engine.evaluate import FittingViews, as_it_is, evaluate
from hires.engine.fabric import Place, scale_of
from hires.engine.nonfinite import Guard
from hires.engine.ranks import Alone, Ranks, Several
from hires.engine.recovery import Averaging, Ladder, Recovering
from hires.engine.sharded_share import ShardedShare
from hires.engine.share import OfSeveral
from hires.engine.step import Guarding, Share, Trust, Updater, Whole, train_step
from hires.engine.stopping import Stopping
from hires.engine.time_split import NoSplit, TimeSplit
from hires.engine.undo import Undo
from hires.engine.views import Views
from hires.interfaces import ImageSource, MemoryPlan, Normalization
from hires.learner import Learner
from hires.models.statistics import image_statistics
from hires.ops.looks import NoNotes, Notes
from hires.recipe import Recipe

Evaluation = Callable[[Any], dict[str, float]]
_ALONE, _TRUST, _NO_SPLIT, _NO_NOTES = Alone(), Trust(), NoSplit(), NoNotes()


def make_update(
    recipe: Recipe,
    learner: Learner,
    ladder: Ladder,
    max_steps: int,
    on_change: Callable[[MemoryPlan], Any] = lambda plan: None,
    ranks: Ranks = _ALONE,
    guard: Guarding = _TRUST,
    split: TimeSplit = _NO_SPLIT,
) -> Updater:
    """One optimizer step of a learner, as a function of the samples; continues where its progress stands.

    `on_change` is told the plan that is used from then on, when memory ran out and the ladder has rungs. `guard`
    decides which updates are done.
    """
    optimizer = learner.optimizer
    schedule = recipe.scheduler.build(optimizer.optimizer, max_steps)
    schedule.step_update(learner.progress.step)
    share: Share = OfSeveral(ranks, optimizer.optimizer) if isinstance(ranks, Several) else Whole()
    if isinstance(ranks, Several) and recipe.sharded:
        share = ShardedShare(ranks, learner.task)
    step = Recovering(
        make_step(recipe, learner, share, guard, split),
        ladder,
        undo=Undo(learner.task, optimizer.optimizer, getattr(learner.fabric.strategy.precision, "scaler", None)),
        apply=partial(exchange_plan, recipe, learner),
        on_change=on_change,
        progress=learner.progress,
    )
    share.on_strain = step.strained
    return Updater(
        step=step,
        schedule=schedule.step_update,
        average=Averaging(learner.average),
        progress=learner.progress,
    )


def make_guard(recipe: Recipe, learner: Learner, ranks: Ranks = _ALONE) -> Guard:
    """Stops updates by what is not finite, and the training when there are too many."""
    trainer = recipe.trainer

    def state() -> str:
        rate = learner.optimizer.param_groups[-1]["lr"]
        return f"the learning rate is {rate:.3g}, trainer.precision {trainer.precision}"

    advice = ["a lower optimizer.lr", "a longer scheduler.warmup_steps"]
    advice += [] if trainer.clip_grad_norm else ["trainer.clip_grad_norm=1"]
    advice += ["trainer.precision=bf16-mixed"] if trainer.precision == "16-mixed" else []
    return Guard(
        learner.task,
        learner.progress,
        trainer.max_skipped,
        scale=scale_of(learner.fabric),
        ranks=ranks,
        state=state,
        advice=f"Resume or start again with {', '.join(advice)}; `hires check-data` finds broken images",
    )


def make_step(
    recipe: Recipe, learner: Learner, share: Share, guard: Guarding = _TRUST, split: TimeSplit = _NO_SPLIT
) -> Callable[..., dict[str, Tensor]]:
    """`train_step` of a learner, as a function of the samples and the size of a micro-batch."""
    fabric = learner.fabric
    return partial(
        train_step,
        learner.task,
        optimizer=learner.optimizer,
        place=Place(fabric.device, recipe.trainer.channels_last),
        autocast=fabric.autocast,
        backward=split.backward(fabric.backward),
        clip=split.clip(make_clip(recipe, learner)),
        share=share,
        guard=guard,
    )


def make_clip(recipe: Recipe, learner: Learner) -> Callable[[], Any]:
    """Clips the gradients of a learner to the norm of the trainer, or does nothing."""
    limit = recipe.trainer.clip_grad_norm
    if not limit:
        return lambda: None
    clip = learner.fabric.clip_gradients
    return partial(clip, learner.task, learner.optimizer, max_norm=limit, error_if_nonfinite=False)


def make_dataset(recipe: Recipe, source: Any, normalization: Normalization) -> TrainingDataset:
    """The training samples of a source: windows, or whole images resized. Raises ConfigError for transforms."""
    data, augment = recipe.data, recipe.augmentation.of(normalization)
    settings = (source, recipe.image_size, data.window, augment, recipe.top.seed)
    if data.fit == "resize":
        return ResizeDataset(*settings, padding=recipe.task.padding)
    return WindowDataset(*settings, scale=data.scale, padding=recipe.task.padding, mosaic=data.mosaic)


def make_batches(dataset: TrainingDataset, sampler: StepSampler, recipe: Recipe, fabric: Fabric) -> StepLoader:
    """The optimizer batches of a training."""
    return make_loader(dataset, sampler, recipe.data.workers, pin_memory=fabric.device.type == "cuda")


def make_views(recipe: Recipe) -> Views:
    """How an evaluation shows whole images to the network."""
    settings = recipe.evaluation
    return Views(
        fit=settings.fit,
        size=recipe.window,
        overlap=settings.overlap,
        batch_size=settings.batch_size,
        tta=settings.tta,
        whole=settings.whole_image,
        padding=recipe.task.padding,
    )


def make_evaluation(
    recipe: Recipe,
    source: ImageSource,
    fabric: Fabric,
    progress: Callable[[int, int], None],
    ranks: Ranks = _ALONE,
    stopping: Stopping | None = None,
    evaluator: Any = None,
    notes: Notes = _NO_NOTES,
) -> Evaluation:
    """Evaluates a task on a source's whole images; `progress` is told the images done and their number.

    `evaluator` is the task's own unless given; `notes` are taken beside its metrics.
    """
    settings = recipe.evaluation
    return partial(
        evaluate,
        source=source,
        evaluator=evaluator or recipe.task.evaluator(source.classes),
        views=FittingViews(make_views(recipe)),
        place=Place(fabric.device, recipe.trainer.channels_last),
        autocast=fabric.autocast,
        settle=image_statistics if settings.statistics == "image" else as_it_is,
        progress=progress,
        ranks=ranks,
        skip=recipe.data.on_error == "skip",
        stopping=stopping or Stopping(),
        notes=notes,
    )
