"""The command `predict`: masks or boxes of any images, at their native resolution, by the network of a run."""

import logging
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from hires import runs
from hires.config_values import settings_of
from hires.data.mask_values import mask_values
from hires.engine.display import Terminal, log_to
from hires.engine.files import write_json
from hires.engine.shortage import release
from hires.interfaces import ConfigError, DataError, TrainingError
from hires.ops.out_of_memory import is_out_of_memory
from hires.predictions.boxes import BoxWriter, Thresholds
from hires.predictions.inputs import Input, Source, find_inputs
from hires.predictions.masks import MaskWriter
from hires.predictions.progress import PredictionProgress
from hires.predictions.record import folder_of, keep_settings, source_text
from hires.predictions.settings import PredictionSettings
from hires.predictions.truth import without_truth
from hires.predictor import Predictor, load_predictor
from hires.run_files import at_checkpoint, read_json

log = logging.getLogger(__name__)

RESULT, CLASSES = "predict.json", "classes.json"
_SAME_RESULT = ("batch_size", "every", "metric")  # of `evaluation`: nothing that is written depends on them


def predict(cfg: DictConfig) -> dict[str, Any]:
    """Predicts as a command; returns what it writes to predict.json.

    Raises DataError at the end if images failed, so that the exit code is 1.
    """
    console = Terminal()
    log_to(console, None)
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    outcome = predict_images(
        plain["run"],
        plain["source"],
        checkpoint=plain["checkpoint"],
        out=plain["out"],
        settings=settings_of(PredictionSettings, cfg),
        data_dir=plain["data_dir"],
        data=plain["data"],
        evaluation=plain["evaluation"],
        trainer=plain["trainer"],
        console=console,
    )
    failed = outcome["failures"]
    if failed:
        raise DataError(
            f"{len(failed)} of {outcome['images']} image(s) failed, see above or {Path(outcome['out']) / RESULT}; "
            "all others are done"
        )
    return outcome


def predict_images(
    run: str | Path,
    source: Source,
    *,
    checkpoint: str = "best",
    out: str | Path | None = None,
    settings: PredictionSettings | None = None,
    data_dir: str | None = None,
    data: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    trainer: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Writes what the network of a run says of images below `out`; returns what it writes to predict.json.

    `source`: an image, a folder, a glob, a .txt list, or a list of paths. `data`, `evaluation` and `trainer` are
    values of the run's settings that are to be others. Images that fail are listed in the result, under
    `failures`. Raises DataError where there are no images, or no such run, ConfigError for wrong values.
    """
    settings = settings or PredictionSettings()
    run_dir = runs.existing_run(str(run))
    folder = folder_of(run_dir, source, out)
    items = find_inputs(source, folder)
    predictor = load_predictor(
        run_dir, checkpoint, data_dir=data_dir, data=data, evaluation=evaluation, trainer=trainer
    )
    items, truth = without_truth(items, source, predictor.recipe.data)
    for key, count in truth.items():
        log.info("%d file(s) there are left out: %s of the run matches them", count, key)
    writer = make_writer(predictor, folder, settings)
    images = {item.output: os.path.abspath(item.path) for item in items}
    settled = _all_settings(predictor, source, settings, writer)
    writer.since = keep_settings(folder, settled, images, settings.overwrite)
    write_json(folder / CLASSES, writer.table())
    log.info("Predicting %d image(s) with %s into %s", len(items), predictor.checkpoint, folder)
    with PredictionProgress(console or Console(quiet=True), len(items)) as progress:
        waiting = [item for item in items if settings.overwrite or not writer.done(item)]
        progress.skipped(len(items) - len(waiting))
        if len(waiting) < len(items):
            log.info("%d image(s) are done already; overwrite=true does them again", progress.done)
        failures = _predict_all(predictor, writer, waiting, settings, progress)
        log.info("Predicted %s", progress.note())
    writer.finish(items)
    outcome = {
        "command": "predict",
        "run_dir": str(run_dir),
        "checkpoint": str(predictor.checkpoint),
        "source": source_text(source),
        "out": str(folder),
        "kinds": writer.kinds(),
        "files": [{"image": str(item.path), "output": item.output} for item in items],
        "failures": failures,
        **_figures(progress, len(items) - len(waiting)),
    }
    write_json(folder / RESULT, outcome)
    if failures:
        log.error("Failed:\n%s", "\n".join(failure["image"] for failure in failures))
    log.info("Done: %s", folder)
    return outcome


def make_writer(predictor: Predictor, out: Path, settings: PredictionSettings) -> MaskWriter | BoxWriter:
    """What writes the files of a run's predictions. Raises ConfigError for settings that it has no use for."""
    names, normalization = predictor.classes.names, predictor.normalization
    if predictor.segments:
        multilabel = bool(predictor.recipe.task.multilabel)
        given = mask_values(predictor.recipe.data)
        return MaskWriter(out, names, settings, normalization, multilabel=multilabel, given=given)
    if settings.probabilities:
        raise ConfigError("probabilities: got true, allowed: false with a detector, whose scores are in boxes/")
    return BoxWriter(
        out, names, predictor.classes.category_ids, settings, normalization, _thresholds(predictor, settings)
    )


def _thresholds(predictor: Predictor, settings: PredictionSettings) -> Thresholds:
    """Overlays show what is surer than the confidence with the best F1, if an evaluation has found it."""
    best, score = best_confidence(predictor), settings.score
    if score == "best" and best is None:
        raise ConfigError(
            "score: got best, but no evaluation of this checkpoint has found a confidence; run `hires evaluate "
            f"run={predictor.run_dir} checkpoint={predictor.checkpoint}` first, or give a number"
        )
    written = best if score == "best" else score
    written = float(written) if isinstance(written, (int, float)) else 0.0
    return Thresholds(written, max(written, best or 0.0))


def best_confidence(predictor: Predictor) -> float | None:
    """The confidence with the best F1 on the validation images, by an evaluation of that very checkpoint."""
    run_dir, checkpoint = predictor.run_dir, predictor.checkpoint
    for found in (_evaluated(run_dir, checkpoint), at_checkpoint(run_dir, checkpoint)):
        confidence = found.get("confidence")
        if isinstance(confidence, (int, float)) and not math.isnan(confidence):
            return float(confidence)
    return None


def _evaluated(run_dir: Path, checkpoint: Path) -> dict[str, Any]:
    """The metrics that `hires evaluate` has found with a checkpoint, by its last evaluation of that file."""
    try:
        found = read_json(run_dir / "evaluate" / f"val-{checkpoint.stem}" / "result.json")
    except DataError:
        return {}
    metrics, of = found.get("metrics"), found.get("checkpoint")
    return metrics if isinstance(metrics, dict) and isinstance(of, str) and _is_same(Path(of), checkpoint) else {}


def _is_same(recorded: Path, checkpoint: Path) -> bool:
    """Whether a recorded path is a checkpoint's, which may have been moved since then with its run."""
    if recorded.exists():
        return recorded.resolve() == checkpoint.resolve()
    return Path(os.path.abspath(recorded)).parts[-3:] == checkpoint.resolve().parts[-3:]


def _predict_all(
    predictor: Predictor,
    writer: MaskWriter | BoxWriter,
    items: Sequence[Input],
    settings: PredictionSettings,
    progress: PredictionProgress,
) -> list[dict[str, str]]:
    """Predicts the images one by one; what failed, and why."""
    failures = []
    for item in items:
        try:
            reason = _predict_one(predictor, writer, item, settings, progress)
        except KeyboardInterrupt:
            log.info("Interrupted: %s; the same command goes on from here", progress.note())
            raise
        if reason is not None:
            log.warning("%s", reason)
            failures.append({"image": str(item.path), "reason": reason})
            progress.finished(None)
    return failures


def _predict_one(
    predictor: Predictor,
    writer: MaskWriter | BoxWriter,
    item: Input,
    settings: PredictionSettings,
    progress: PredictionProgress,
) -> str | None:
    """Why the image failed, or None."""
    try:
        image = predictor.image(item.root, item.name)
        megapixels = image.shape[0] * image.shape[1] / 1e6
        with closing(predictor.parts(image, probabilities=bool(settings.probabilities))) as parts:  # type: ignore[type-var]
            writer.write(item, image, parts, lambda share: progress.within(share, megapixels))
    except DataError as error:
        return str(error)
    except TrainingError as error:
        return f"{item.path}: {error}"
    except OSError as error:
        return f"{item.path}: what was predicted cannot be written ({error.strerror or error}); is the disk full?"
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = f"{item.path}: memory ran out ({' '.join(str(error).split())[:160]})"
    else:
        progress.finished(megapixels)
        return None
    release()
    return reason


def _all_settings(
    predictor: Predictor, source: Source, settings: PredictionSettings, writer: MaskWriter | BoxWriter
) -> dict[str, Any]:
    """What the files of a prediction depend on, scores that an evaluation has found as numbers."""
    evaluation = asdict(predictor.recipe.evaluation)
    written = {name: value for name, value in asdict(settings).items() if name != "overwrite"}
    return {
        "run_dir": os.path.abspath(predictor.run_dir),
        "checkpoint": os.path.abspath(predictor.checkpoint),
        "checkpoint_time": predictor.checkpoint.stat().st_mtime_ns,
        "source": source_text(source),
        "precision": predictor.recipe.trainer.precision,
        "data.nodata": predictor.recipe.data.nodata,
        **written,
        **writer.depends(),
        **{f"evaluation.{name}": value for name, value in evaluation.items() if name not in _SAME_RESULT},
    }


def _figures(progress: PredictionProgress, skipped: int) -> dict[str, Any]:
    """The numbers of predict.json; rates are of the images predicted now, reading and writing included."""
    seconds, predicted = progress.seconds, progress.predicted
    return {
        "images": progress.total,
        "predicted": predicted,
        "skipped": skipped,
        "seconds": seconds,
        "megapixels": progress.megapixels,
        "megapixels_per_second": progress.megapixels / seconds if predicted else None,
        "images_per_second": predicted / seconds if predicted else None,
    }
