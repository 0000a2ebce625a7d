"""Tells a run that has lost its checkpoints from one that never had any."""

from pathlib import Path

from hires.engine.journal import records
from hires.interfaces import DataError


def check_not_lost(run_dir: Path, checkpoint_every: int) -> None:
    """Raises DataError where the checkpoint to go on from is gone: to start again would write over the rest.

    A run that was killed before its first save may start again. It has evaluated nothing, and no record of a step
    after the one at which that save is due.
    """
    folder = run_dir / "checkpoints"
    if any(folder.glob("last*.pt")):
        return
    rest = f"{run_dir}: no checkpoint to go on from (last.pt, last.previous.pt), though the run has"
    if (folder / "best.pt").exists():
        raise DataError(f"{rest} best.pt; init_from={run_dir} takes its weights into a new run")
    found = records(run_dir / "metrics.jsonl")
    late = [each["step"] for each in found if each["kind"] == "evaluate" or each["step"] > checkpoint_every]
    if late:
        raise DataError(f"{rest} metrics up to step {max(late)}; put a copy there, or start another run")
