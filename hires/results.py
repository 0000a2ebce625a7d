"""What result.json of a command holds, and what a training that is stopped notes instead."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from hires.engine.gauge import Gauge
from hires.engine.trainer import Trainer
from hires.interfaces import MemoryPlan


def training_result(
    run_dir: Path, trainer: Trainer, plan: MemoryPlan, batch_size: int, measured: tuple[int | None, int | None]
) -> dict[str, Any]:
    """What result.json of a training holds."""
    seconds, progress = trainer.stopwatch.median(), trainer.progress
    return {
        **result_of_command("train", run_dir, progress.metrics),
        "peak_bytes": peak_bytes(plan, *measured),
        "best": {"metric": trainer.routine.metric, "value": progress.best, "step": progress.best_step},
        "steps": progress.step,
        "skipped": progress.skipped,
        "seconds_per_step": seconds,
        "images_per_second": batch_size / seconds if seconds else None,
        "plan": asdict(plan),
    }


def peak_bytes(plan: MemoryPlan, allocated: int | None, reserved: int | None) -> dict[str, Any]:
    """Predicted, and measured in the first steps; on a CPU a probe may have measured what was allocated."""
    predicted, probed = plan.predicted, plan.measured
    return {
        "predicted": asdict(predicted) if predicted else {"allocated": None, "reserved": None},
        "allocated": allocated or (probed and probed.allocated),
        "reserved": reserved,
    }


def result_of_command(command: str, run_dir: Path, metrics: dict[str, float]) -> dict[str, Any]:
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


def noted_at_stop(trainer: Trainer, gauge: Gauge) -> dict[str, Any]:
    """What a training that is stopped notes for its report."""
    allocated, reserved = gauge.so_far()
    peaks = {"allocated": gauge.allocated or allocated, "reserved": gauge.reserved or reserved}
    return {"step": trainer.progress.step, "max_steps": trainer.routine.max_steps, "peak_bytes": peaks}
