"""report.html of a run: written at the end of `hires train` and by `hires evaluate`, or again from a run's files.

The command `report` does the latter, in seconds: it reads no images and no weights.
"""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from hires import report_unfinished as unfinished
from hires import runs
from hires.data.settings import DataSettings
from hires.engine.display import Terminal, log_to
from hires.engine.files import jsonable, write_json, write_text
from hires.engine.lock import check_free
from hires.interfaces import ConfigError, DataError, ImageSource, Normalization
from hires.observed import Observed
from hires.ops.looks import Evidence
from hires.report_advice import advice
from hires.report_evaluated import evaluated_of
from hires.run_files import environment, of_a_run, plan_of, read_json, records
from hires.run_settings import differing, how_to_train
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
            evaluated = evaluated_of(observed.source, data, normalization, taken.evidence, taken.metrics)
            of = "the best checkpoint" if at_best else "the last evaluation"
            there = best_step and not at_best
            earlier = f" `hires evaluate run=RUN` shows the best one, of step {best_step}." if there else ""
            evaluated |= {"split": "val", "step": taken.step}
            evaluated["note"] = f"Of {of}, at step {taken.step}, on the validation images.{earlier}"
        time = _time(observed) if observed.split.steps else before.get("time")
        noticed = {"command": "train", "device": device, "time": time, "evaluated": evaluated}
        _write(run_dir, run_dir, noticed)

    _harmless(write)


def after_stop(
    run_dir: Path, observed: Observed, data: DataSettings, device: str, stopped: dict[str, Any]
) -> None:
    """The same of a training that a signal ends, in a moment: without images, which `hires evaluate` shows."""

    def write() -> None:
        before, best = _before(run_dir), observed.best
        evaluated = before.get("evaluated")
        if best is not None and observed.source is not None:
            evaluated = evaluated_of(None, data, None, best.evidence, best.metrics) | {
                "split": "val",
                "step": best.step,
            }
            evaluated["note"] = f"Of the best checkpoint, at step {best.step}, on the validation images."
        time = _time(observed) if observed.split.steps else before.get("time")
        noticed = {"command": "train", "device": device, "time": time, "evaluated": evaluated}
        _write(run_dir, run_dir, {**noticed, "stopped": stopped})

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
        evaluated = evaluated_of(source, data, normalization, evidence, metrics)
        images = {"val": "validation", "test": "test"}.get(split, split)
        evaluated |= {"split": split, "step": None, "note": f"Of {checkpoint.name}, on the {images} images."}
        before = _before(run_dir)
        noticed = {
            "command": "evaluate",
            "device": before.get("device", device),
            "time": before.get("time"),
            "evaluated": evaluated,
            **({"stopped": before["stopped"]} if "stopped" in before else {}),
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
    with of_a_run(run_dir):
        text = page(content(run_dir, _filled(read_json(run_dir / RESULT))))
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
    result, plan, lines = read_json(run_dir / "result.json"), plan_of(run_dir, cfg), records(run_dir)
    choices, rows = differing(cfg)
    verdict = _verdict(result)
    stopped, evaluates = noticed.get("stopped") or {}, unfinished.has_validation(cfg.data)
    reached = unfinished.steps_reached(lines, stopped, cfg.trainer.max_steps, evaluates)
    if (result.get("steps") or 0) < reached["step"] or not result:  # or it went on after its result
        verdict = unfinished.verdict(reached)
        result = unfinished.result_so_far(lines, stopped, plan, cfg.evaluation.metric)
        noticed = {**noticed, "time": noticed["time"] or unfinished.time_of_steps(lines)}
    settings, peaks = how_to_train(cfg), result.get("peak_bytes") or {}
    time, machine = noticed["time"], environment(run_dir)
    if time and ("processes", "1") in machine:
        time = _of_one_process(time)
    evaluations = sum(line["kind"] == "evaluate" for line in lines)
    spent = time["seconds"] if time else {}
    return {
        "run": run_dir.resolve().name,
        "verdict": verdict,
        "result": result,
        "records": lines,
        "evaluated": noticed["evaluated"],
        "peaks": peaks,
        "plan": plan,
        "time": time,
        "advice": advice(settings, spent, peaks, plan or {}, noticed["device"] or "", evaluations),
        "choices": choices,
        "settings": rows,
        "environment": machine,
    }


def _verdict(result: dict[str, Any]) -> str:
    best = result.get("best") or {}
    found = f"; best {best['metric']} {best['value']:.4g}" if best.get("value") is not None else ""
    return f"{result.get('steps', 'Some')} steps trained{found}."


def _of_one_process(time: dict[str, Any]) -> dict[str, Any]:
    """Nothing was exchanged then: what lies between backward and the optimizer is other."""
    seconds = dict(time["seconds"])
    if "exchange" in seconds:
        seconds["other"] = seconds.get("other", 0.0) + seconds.pop("exchange")
    return {**time, "seconds": seconds}


def _time(observed: Observed) -> dict[str, Any]:
    """The seconds of a training by what they went for, with those that went for nothing of it."""
    found = observed.split.found()
    seconds = found["seconds"]
    total = seconds.pop("all", 0.0)
    seconds["other"] = max(0.0, total - math.fsum(seconds.values()))
    return found
