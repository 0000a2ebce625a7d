"""What a run has left in its directory, read back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from hires import __version__
from hires.interfaces import DataError, HiresError, MemoryPlan
from hires.memory.budget import budget_bytes, check_budget
from hires.ops.plain_yaml import read_plain
from hires.provenance import machine, versions
from hires.visualize.text import size

_OF_OTHER_CONTENT = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    YAMLError,
)


def records(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a last one that is cut off does not count."""
    path, found = run_dir / "metrics.jsonl", []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            continue
        if record.get("kind") in ("train", "evaluate"):
            found.append(record)
    return found


def read_json(path: Path) -> dict[str, Any]:
    """What a JSON file says, {} where it is not there. Raises DataError for what is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    return found if isinstance(found, dict) else {}


@contextmanager
def of_a_run(where: Any) -> Iterator[None]:
    """Turns what files raise that hold something else than a run leaves into a DataError; those of ours pass."""
    try:
        yield
    except _OF_OTHER_CONTENT as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DataError(f"{where}: its files are not those of a run ({what}); copy the run again") from error


def plan_of(run_dir: Path, cfg: DictConfig) -> dict[str, Any] | None:
    """What plan.yaml says, a budget that is given as a size included; None where there is none."""
    path = run_dir / "plan.yaml"
    found = read_plain(path.read_text(encoding="utf-8")) if path.exists() else None
    if not isinstance(found, dict):
        return None
    plan = {**asdict(MemoryPlan(1, 1, (0, 0), "")), **found}
    return plan if plan["budget"] is not None else {**plan, "budget": _given_budget(cfg)}


def _given_budget(cfg: DictConfig) -> int | None:
    """Bytes of a budget that is given as a size; a share is of what was free."""
    said = OmegaConf.select(cfg, "memory.budget")
    try:
        check_budget(said)
    except HiresError:
        return None
    return budget_bytes(said, "cpu") if isinstance(said, str) and said != "auto" else None


def at_checkpoint(run_dir: Path, checkpoint: Path) -> dict[str, Any]:
    """The metrics of the training's own evaluation of its checkpoint `best` or `last`; {} of any other file."""
    name = checkpoint.name.removesuffix(".pt")
    if (
        name not in ("best", "last")
        or checkpoint.resolve() != (run_dir / "checkpoints" / checkpoint.name).resolve()
    ):
        return {}
    try:
        result = read_json(run_dir / "result.json")
    except DataError:
        return {}
    best = result.get("best")
    step = result.get("steps") if name == "last" else best.get("step") if isinstance(best, dict) else None
    found = [line for line in records(run_dir) if line["kind"] == "evaluate" and line["step"] == step]
    return found[-1] if found and step is not None else {}


def environment(run_dir: Path) -> list[tuple[str, str]]:
    """What a run was last started with, by its environment.json; without that, what this page is made with.

    Command lines are left out: their paths may name people.
    """
    starts = read_json(run_dir / "environment.json").get("starts")
    if isinstance(starts, list) and starts and isinstance(starts[-1], dict):
        kept = {name: value for name, value in starts[-1].items() if name not in ("command", "overrides")}
        return [("starts", str(len(starts))), *_flat(kept)]
    now = {"hires": {"version": __version__}, "versions": versions(), "machine": machine()}
    return [("this page was made with", ""), *_flat(now)]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and plain values as texts; what is null is left out."""
    if isinstance(value, (dict, list)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flat(child, f"{name}.{key}" if name else str(key))
    elif value is not None:
        is_size = name.endswith("_bytes") and isinstance(value, int)
        yield name.removesuffix("_bytes"), size(value) if is_size else str(value)
