"""`hires compare runs=[A,B]`: what finished runs were made with, how they went, what they reached and took."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from hires import runs
from hires.interfaces import ConfigError, DataError
from hires.run_files import read_json, records
from hires.run_settings import differences
from hires.visualize.report import loss_series, metric_series, points

log = logging.getLogger(__name__)

EXAMPLE = "runs=[runs/demo/2025-01-31_12-00-00,runs/demo/2025-01-31_13-00-00]"


def found_of_runs(given: Any) -> dict[str, Any]:
    """What compare.json says of runs. Raises ConfigError and DataError for what cannot be compared."""
    paths = _paths(given)
    cfgs: dict[str, DictConfig] = {name: runs.load_config(path) for name, path in paths.items()}
    found = {name: _found(path) for name, path in paths.items()}
    for name, each in found.items():
        if not each["finished"]:
            log.warning("%s has not ended: it is compared as far as it is", name)
    return {"runs": found, "differences": differences(cfgs)}


def _paths(given: Any) -> dict[str, Path]:
    """Run directories by the shortest names that tell them apart."""
    listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if len(listed) < 2 or not all(isinstance(each, str) for each in listed):
        shown = f"{len(listed)} of them" if listed else repr(given)
        raise ConfigError(f"runs: got {shown}, allowed: two run directories or more, for example {EXAMPLE}")
    paths = [runs.existing_run(each).resolve() for each in listed]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise ConfigError(f"runs: {twice} is given twice")
    return dict(zip(names(paths), paths, strict=True))


def names(paths: Sequence[Path]) -> list[str]:
    """The last parts of different paths, as many as tell all apart."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        shown = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(shown)) == len(shown):
            return shown
    return [str(path) for path in paths]


def _found(run_dir: Path) -> dict[str, Any]:
    result, lines = read_json(run_dir / "result.json"), records(run_dir)
    if not result and not lines:
        raise DataError(f"{run_dir}: holds neither result.json nor a line in metrics.jsonl; let it train first")
    trained = [line for line in lines if line["kind"] == "train"]
    evaluated = [line for line in lines if line["kind"] == "evaluate"]
    best = result.get("best") or {"metric": None, "value": None, "step": None}
    peaks: Mapping[str, Any] = result.get("peak_bytes") or {}
    curves = {**loss_series(trained), "lr": points(trained, "lr"), **metric_series(evaluated)}
    return {
        "path": str(run_dir),
        "finished": bool(result),
        "steps": result.get("steps", max((line["step"] for line in lines), default=0)),
        "best": best,
        "metrics": _metrics(result, evaluated, best),
        "peak_bytes": {
            "predicted": peaks.get("predicted") or {"allocated": None, "reserved": None},
            "allocated": peaks.get("allocated"),
            "reserved": peaks.get("reserved"),
        },
        "seconds_per_step": result.get("seconds_per_step"),
        "images_per_second": result.get("images_per_second"),
        "curves": {name: [list(point) for point in values] for name, values in curves.items() if values},
    }


def _metrics(
    result: Mapping[str, Any], evaluated: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
) -> dict[str, float | None]:
    """Those of the best evaluation, or else of the last one."""
    at_best = [line for line in evaluated if best["value"] is not None and line["step"] == best["step"]]
    if at_best:
        return {name: value for name, value in at_best[-1].items() if name not in ("kind", "step", "time")}
    found: dict[str, float | None] = result.get("metrics") or {}
    return found
