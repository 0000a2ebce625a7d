"""SLURM: which job this is, and how it is put into the queue again."""

import logging
import os
import subprocess

log = logging.getLogger(__name__)

_PATIENCE = 60  # seconds that scontrol may take


def job_id() -> str | None:
    """The job of this process as SLURM's commands take it; of an array, its one task."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def is_requeued() -> bool:
    """Whether the job of this process has been started before."""
    return starts() > 0


def starts() -> int:
    """How often SLURM has put the job of this process into its queue again."""
    return count("SLURM_RESTART_COUNT", 0)


def count(name: str, default: int) -> int:
    """A number that SLURM tells by a variable of the environment; the default where it tells none."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def requeue() -> None:
    """Puts the job of this process into the queue again; outside of SLURM nothing. What goes wrong is logged."""
    job = job_id()
    if job is None:
        return
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    else:
        reason = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        if done.returncode == 0:
            log.info("SLURM has job %s in its queue again", job)
            return
    log.error("SLURM's job %s is not in its queue again (%s: %s)", job, " ".join(command), reason)
