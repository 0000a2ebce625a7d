"""report.html of a run: written at the end of `hires train` and by `hires evaluate`, or again from a run's files.

The command `report` does the latter, in seconds: it reads no images and no weights.
"""

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from hires import runs
from hires.data.mask_values import mask_values
from hires.data.settings import DataSettings
from hires.engine.display import Terminal, log_to
from hires.engine.files import jsonable, write_json, write_text
from hires.engine.lock import check_free
from hires.interfaces import ConfigError, DataError, HiresError, ImageSource, MemoryPlan, Normalization
from hires.memory.budget import budget_bytes, check_budget
from hires.observed import Observed
from hires.ops.looks import Evidence, Look
from hires.report_advice import advice
from hires.run_files import environment, read_json, records
from hires.run_settings import differing, leaves
from hires.visualize.colours import class_colours, hex_colours, is_ground
from hires.visualize.pictures import Paint, pictures, visible
from hires.visualize.report import page

log = logging.getLogger(__name__)

RESULT, PAGE = "report.json", "report.html"
_ABSENT: dict[str, Any] = {"device": None, "time": None, "evaluated": None}
_NO_TIME: dict[str, Any] = {"seconds": {}, "steps": 0, "steps_sampled": 0}
_NO_SCORES = {"images": 0, "lowest": None, "median": None, "highest": None}
_NOTHING_EVALUATED: dict[str, Any] = {
    **{"note": "", "metrics": {}, "classes": [], "score": "score", "scores": _NO_SCORES, "images": []},
    **dict.fromkeys(("split", "step", "confidence", "confusion", "curves", "boxes", "unpainted", "colours")),
}
"""What a report.json may lack, and what counts instead."""


def report(cfg: DictConfig) -> Path:
    """Writes report.html again, as a command; gives its path."""
    log_to(Terminal(), None)
    path = rebuild(Path(cfg.run).expanduser())
    log.info("Done: %s", path)
    return path


def after_training(
    run_dir: Path,
    observed: Observed,
    data: DataSettings,
    normalization: Normalization,
    device: str,
    best_step: int,
) -> None:
    """Writes report.json and report.html of a training; what goes wrong is warned of."""

    def write() -> None:
        at_best = observed.best is not None and observed.best.step == best_step
        taken = observed.best if at_best else observed.last
        before = _before(run_dir)
        evaluated = before.get("evaluated")  # of a run that was resumed after its last evaluation
        if taken is not None and observed.source is not None:
            evaluated = _evaluated(observed.source, data, normalization, taken.evidence, taken.metrics)
            of = "the best checkpoint" if at_best else "the last evaluation"
            there = best_step and not at_best
            earlier = f" `hires evaluate run=RUN` shows the best one, of step {best_step}." if there else ""
            evaluated |= {"split": "val", "step": taken.step}
            evaluated["note"] = f"Of {of}, at step {taken.step}, on the validation images.{earlier}"
        time = _time(observed) if observed.split.steps else before.get("time")
        noticed = {"command": "train", "device": device, "time": time, "evaluated": evaluated}
        _write(run_dir, run_dir, noticed)

    _harmless(write)


def after_evaluation(
    run_dir: Path,
    folder: Path,
    source: ImageSource,
    data: DataSettings,
    normalization: Normalization,
    evidence: Evidence | None,
    metrics: dict[str, float],
    split: str,
    checkpoint: Path,
    device: str,
) -> None:
    """The same of an evaluation, in its folder; that of the run's best checkpoint on `val` is also the run's.

    Not while a training writes to the run.
    """

    def write() -> None:
        if evidence is None:
            return
        evaluated = _evaluated(source, data, normalization, evidence, metrics)
        images = {"val": "validation", "test": "test"}.get(split, split)
        evaluated |= {"split": split, "step": None, "note": f"Of {checkpoint.name}, on the {images} images."}
        before = _before(run_dir)
        noticed = {
            "command": "evaluate",
            "device": before.get("device", device),
            "time": before.get("time"),
            "evaluated": evaluated,
        }
        best = (run_dir / "checkpoints" / "best.pt").resolve()
        of_run = split == "val" and checkpoint.resolve() == best and _is_free(run_dir)
        for place in [folder, *([run_dir] if of_run else [])]:
            _write(run_dir, place, noticed)

    _harmless(write)


def rebuild(run_dir: Path) -> Path:
    """Writes report.html again from what the run holds.

    Raises DataError where it is none, or one of its files is not what a run leaves.
    """
    runs.existing_run(str(run_dir))
    try:
        text = page(content(run_dir, _filled(read_json(run_dir / RESULT))))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, YAMLError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DataError(f"{run_dir}: its files are not those of a run ({what}); copy the run again") from error
    write_text(run_dir / PAGE, text)
    return run_dir / PAGE


def _filled(noticed: dict[str, Any]) -> dict[str, Any]:
    """A report.json with all that a page asks of it."""
    whole = {**_ABSENT, **noticed}
    for name, absent in (("time", _NO_TIME), ("evaluated", _NOTHING_EVALUATED)):
        whole[name] = whole[name] and {**absent, **whole[name]}
    return whole


def _is_free(run_dir: Path) -> bool:
    try:
        check_free(run_dir)
    except ConfigError as error:
        log.info("The run's own %s stays as it is: %s", PAGE, error)
        return False
    return True


def _harmless(write: Callable[[], None]) -> None:
    try:
        write()
    except Exception as error:  # the training is done, whatever a page lacks
        log.warning("%s could not be made (%s: %s)", PAGE, type(error).__name__, str(error).partition("\n")[0])


def _before(run_dir: Path) -> dict[str, Any]:
    """What the report of a run says until now; nothing where it cannot be read."""
    try:
        return read_json(run_dir / RESULT)
    except DataError:
        return {}


def _write(run_dir: Path, place: Path, noticed: dict[str, Any]) -> None:
    write_json(place / RESULT, {"run_dir": str(run_dir), **noticed})
    write_text(place / PAGE, page(content(run_dir, jsonable(noticed))))


def content(run_dir: Path, noticed: dict[str, Any]) -> dict[str, Any]:
    """What the page of a run shows: all that lies in its directory, with what was `noticed` of it."""
    cfg = runs.load_config(run_dir)
    result, plan = read_json(run_dir / "result.json"), _plan(run_dir)
    choices, rows = differing(cfg)
    if plan is not None and plan["budget"] is None:
        plan["budget"] = _given_budget(cfg)
    settings, peaks = leaves(OmegaConf.to_container(cfg, resolve=False)), result.get("peak_bytes") or {}
    time = noticed["time"] or {}
    return {
        "run": run_dir.resolve().name,
        "verdict": _verdict(result),
        "result": result,
        "records": records(run_dir),
        "evaluated": noticed["evaluated"],
        "peaks": peaks,
        "plan": plan,
        "time": noticed["time"],
        "advice": advice(settings, time.get("seconds", {}), peaks, plan or {}, noticed["device"] or ""),
        "choices": choices,
        "settings": rows,
        "environment": environment(run_dir),
    }


def _verdict(result: dict[str, Any]) -> str:
    if not result:
        return "The training has not ended."
    best = result.get("best") or {}
    found = f"; best {best['metric']} {best['value']:.4g}" if best.get("value") is not None else ""
    return f"{result.get('steps', 'Some')} steps trained{found}."


def _plan(run_dir: Path) -> dict[str, Any] | None:
    path = run_dir / "plan.yaml"
    found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    return {**asdict(MemoryPlan(1, 1, (0, 0), "")), **found} if isinstance(found, dict) else None


def _given_budget(cfg: DictConfig) -> int | None:
    """Bytes of a budget that is given as a size; a share is of what was free."""
    said = OmegaConf.select(cfg, "memory.budget")
    try:
        check_budget(said)
    except HiresError:
        return None
    return budget_bytes(said, "cpu") if isinstance(said, str) and said != "auto" else None


def _time(observed: Observed) -> dict[str, Any]:
    """The seconds of a training by what they went for, with those that went for nothing of it."""
    found = observed.split.found()
    seconds = found["seconds"]
    total = seconds.pop("all", 0.0)
    seconds["other"] = max(0.0, total - math.fsum(seconds.values()))
    return found


def _evaluated(
    source: ImageSource,
    data: DataSettings,
    normalization: Normalization,
    evidence: Evidence,
    metrics: dict[str, float],
) -> dict[str, Any]:
    """What report.json says of an evaluation."""
    paint, scores = _paint(data, evidence), evidence.scores
    return {
        "metrics": metrics,
        "classes": list(evidence.classes),
        "score": evidence.score,
        "scores": {
            "images": len(scores),
            "lowest": scores[0] if scores else None,
            "median": float(np.median(scores)) if scores else None,
            "highest": scores[-1] if scores else None,
        },
        "confidence": evidence.confidence,
        "confusion": evidence.confusion,
        "curves": evidence.curves,
        "boxes": any(look.found is not None for look in evidence.looks),
        "unpainted": None if paint.unpainted is None else evidence.classes[paint.unpainted],
        "colours": hex_colours(paint.colours),
        "images": list(_images(source, normalization, evidence, paint)),
    }


def _paint(data: DataSettings, evidence: Evidence) -> Paint:
    """Colours as predictions have them; the background by its name, or else the most frequent class, has none."""
    values = mask_values(data)
    colours = class_colours(evidence.classes, values.numbers if values and values.are_colours else None)
    if evidence.confusion is None:
        return Paint(colours, None, multilabel=True)
    grounds = [index for index, name in enumerate(evidence.classes) if is_ground(name)]
    most = int(np.argmax(np.sum(evidence.confusion, axis=1)))
    return Paint(colours, grounds[0] if grounds else most, multilabel=False)


def _images(
    source: ImageSource, normalization: Normalization, evidence: Evidence, paint: Paint
) -> Iterator[dict[str, Any]]:
    for look in evidence.looks:
        try:
            shown = _pictures(source, normalization, look, paint)
        except HiresError as error:
            log.warning("The report lacks an image: %s", error)
            continue
        yield {
            "name": source.name(look.image),
            "rank": look.rank,
            "score": look.score,
            "window": list(look.window),
            "pictures": shown,
        }


def _pictures(source: ImageSource, normalization: Normalization, look: Look, paint: Paint) -> dict[str, str]:
    image, target = source.read(look.image, look.window)
    seen = visible(np.asarray(image), normalization.low, normalization.high)
    return pictures(look, seen, target.get("mask"), paint)
