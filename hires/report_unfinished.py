"""What is known of a run that has no result.json: it is at work, or was stopped or killed."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

_OWN = ("mIoU", "mask_AP", "AP")  # metrics of tasks, the first that an evaluation has
Records = Sequence[Mapping[str, Any]]


def steps_reached(
    records: Records, stopped: Mapping[str, Any], max_steps: int | None, evaluates: bool = True
) -> dict[str, Any]:
    """Steps that are known to be done, of how many, and whether the last of them has been evaluated.

    `stopped`: what the run noted when a signal ended it; `max_steps`: of the configuration, None if in epochs.
    `evaluates`: whether there are images for that.
    """
    logged = [record["step"] for record in records]
    step, of = max([*logged, stopped.get("step") or 0]), max_steps or stopped.get("max_steps")
    evaluated = any(record["kind"] == "evaluate" and record["step"] == step for record in records) or not evaluates
    return {"step": step, "of": of, "evaluated": evaluated}


def has_validation(data: Mapping[str, Any]) -> bool:
    """Whether the settings `data` of a run name validation images."""
    annotations, splits = data.get("annotations"), data.get("splits") or {}
    if isinstance(annotations, Mapping):
        return "val" in annotations
    return splits.get("val") is not None or data.get("fold") is not None


def verdict(found: Mapping[str, Any]) -> str:
    """How far a run is, and what makes up for what is missing."""
    step, of = found["step"], found["of"]
    if not step:
        return "The training has not ended."
    if not of or step < of:
        return f"The training has not ended: {step} steps{f' of {of}' if of else ''} are done."
    if found["evaluated"]:
        return f"All {of} steps are done, but the result is missing: hires train resume=RUN writes it."
    return (
        f"All {of} steps are done, but the evaluation after them is missing: hires train resume=RUN makes it and "
        "writes the result; hires evaluate run=RUN checkpoint=last makes it alone."
    )


def result_so_far(
    records: Records, stopped: Mapping[str, Any], plan: Mapping[str, Any] | None, metric: str | None
) -> dict[str, Any]:
    """What result.json would say, as far as the run's other files say it.

    `metric`: the one that decides which evaluation is best; None: the task's own.
    """
    trained = [record for record in records if record["kind"] == "train"]
    found: dict[str, Any] = {"steps": max([*(record["step"] for record in records), stopped.get("step") or 0])}
    for name in ("seconds_per_step", "images_per_second"):
        values = [record[name] for record in trained if record.get(name)]
        found[name] = statistics.median(values) if values else None
    plan, peaks = plan or {}, stopped.get("peak_bytes") or {}
    probed = plan.get("measured") or {}
    found["peak_bytes"] = {
        "predicted": plan.get("predicted"),
        "allocated": peaks.get("allocated") or probed.get("allocated"),
        "reserved": peaks.get("reserved"),
    }
    evaluated = [record for record in records if record["kind"] == "evaluate"]
    metric = metric or next((name for name in _OWN if evaluated and name in evaluated[0]), "")
    scores = [(record[metric], -record["step"]) for record in evaluated if record.get(metric) is not None]
    if scores:
        value, step = max(scores)
        found["best"] = {"metric": metric, "value": value, "step": -step}
    return found


def time_of_steps(records: Records) -> dict[str, Any] | None:
    """Seconds of the steps by the lines of metrics.jsonl: all that a killed run leaves of its time."""
    seconds, steps, last = 0.0, 0, 0
    for record in records:
        if record["kind"] != "train":
            continue
        new, last = record["step"] - last, record["step"]
        if new > 0 and record.get("seconds_per_step"):
            seconds, steps = seconds + new * record["seconds_per_step"], steps + new
    if not steps:
        return None
    note = "by the lines of metrics.jsonl, which know of nothing but steps"
    return {"seconds": {"steps": seconds}, "steps": steps, "steps_sampled": 0, "of": note}
