"""Processes that `hires train` starts itself: how they begin, and how they end."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="gloo is not available")
REPOSITORY = Path(__file__).parents[2]
MINUTE = 60

SCRIPT = """
import os, signal, sys, time
from hires.cli import run_command
from hires.engine import launch
from hires.engine.trainer import Trainer

what, *arguments = sys.argv[1:]
after_step, ranks = Trainer._after_step, os.environ

def ready():
    os.write(1, b"ready %d\\n" % os.getpid())  # in one piece, beside the other process

def patched(self, batch_size):
    after_step(self, batch_size)
    if self.progress.step == 2 and ranks["LOCAL_RANK"] == "1" and what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if self.progress.step == 2 and ranks["LOCAL_RANK"] == "1" and what == "bug":
        raise ValueError("a bug of this process")
    if self.progress.step == 2 and what in ("wait", "go on", "alone"):
        ready()
    if self.progress.step == 2 and (what == "wait" or what == "alone" and ranks["LOCAL_RANK"] == "0"):
        time.sleep(300)

def late(*arguments):
    ready()
    time.sleep(300)

Trainer._after_step = patched
if what == "late" and ranks.get("LOCAL_RANK") == "1":
    launch._launched = late
sys.exit(run_command("train", arguments))
"""


@pytest.fixture
def start(shapes_overrides, tmp_path):
    """Starts a command line with two processes; whatever is left is ended after the test."""
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    inherited = {name: value for name, value in os.environ.items() if name not in ("LOCAL_RANK", "WORLD_SIZE")}
    environment = {**inherited, "PYTHONPATH": paths}
    started = []

    def run(*words: str) -> subprocess.Popen[str]:
        overrides = [o for o in shapes_overrides if not o.startswith("run_dir=")]
        command = [sys.executable, *words, *overrides, "trainer.devices=2"]
        started.append(
            subprocess.Popen(
                command,
                env=environment,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                # what a shell starts in the background ignores it, and so would what that starts
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )
        )
        return started[-1]

    yield run
    for process in started:
        if there(process.pid, group=True):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def there(pid: int, group: bool = False) -> bool:
    try:
        (os.killpg if group else os.kill)(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ready(process) -> list[int]:
    """The numbers of both processes, that of the launcher first, when they have done two steps."""
    pids: list[int] = []
    for line in process.stdout:
        pids += [int(line.split()[1])] if line.startswith("ready") else []
        if len(pids) == 2:
            return sorted(pids, key=lambda pid: pid != process.pid)
    raise AssertionError(process.stderr.read())


def ended(process, seconds: float = MINUTE) -> tuple[str, str]:
    """What a command and all that it started have said, when none of them is left."""
    end = time.monotonic() + seconds
    while there(process.pid, group=True) and time.monotonic() < end:
        process.poll()
        time.sleep(0.2)
    assert not there(process.pid, group=True)
    return process.communicate()


def test_a_process_that_is_killed_ends_the_run(start, tmp_path):
    process = start("script.py", "kill", f"run_dir={tmp_path / 'run'}", "trainer.checkpoint_every=1")
    output, error = process.communicate(timeout=5 * MINUTE)
    assert process.returncode == 1, error
    assert "one of its processes has ended or cannot be reached" in error.splitlines()[-1]
    assert re.search(r"process 1 \(pid \d+\) was ended by signal 9 \(Killed\)", output)
    assert (tmp_path / "run" / "checkpoints" / "last.pt").exists()


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_run_although_the_first_one_is_busy(start, tmp_path):
    """No collective tells it."""
    process = start("script.py", "alone", f"run_dir={tmp_path / 'run'}")
    _, other = ready(process)
    os.kill(other, signal.SIGKILL)
    output, error = ended(process)
    assert process.returncode == 1
    assert error == ""
    assert output.splitlines()[-1].startswith(
        f"The training cannot go on: process 1 (pid {other}) was ended by signal 9"
    )


@pytest.mark.parametrize(
    ("number", "whom"),
    [
        (signal.SIGTERM, "launcher"),
        pytest.param(signal.SIGTERM, "other", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, "group", marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, "launcher", marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_all_after_the_same_step(start, tmp_path, number, whom):
    process = start("script.py", "go on", f"run_dir={tmp_path / 'run'}", "trainer.max_steps=100000")
    launcher, other = ready(process)
    (os.killpg if whom == "group" else os.kill)({"other": other}.get(whom, launcher), number)
    output, error = ended(process)
    assert process.returncode == 128 + number, error
    assert error == ""
    (step,) = re.findall(rf"{number.name}: stopped after step (\d+), which", output)
    state = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert state["progress"]["step"] == int(step)


@pytest.mark.slow
def test_a_process_that_fails_says_why(start, tmp_path):
    process = start("script.py", "bug", f"run_dir={tmp_path / 'run'}")
    output, error = ended(process, 5 * MINUTE)
    assert process.returncode == 1
    assert "Traceback" in error
    assert "ValueError: a bug of this process" in error
    assert re.search(r"process 1 \(pid \d+\) has ended with exit code 1; what it said", output)


@pytest.mark.slow
def test_a_launcher_that_is_killed_ends_all(start, tmp_path):
    """Also while no collective would tell the others."""
    process = start("script.py", "wait", f"run_dir={tmp_path / 'run'}")
    launcher, _ = ready(process)
    os.kill(launcher, signal.SIGKILL)
    _, error = ended(process)
    assert process.returncode == -signal.SIGKILL
    assert f"its first process here (pid {launcher}) has ended" in error.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_waits_for_another_process_ends_at_once(start, tmp_path, number):
    process = start("script.py", "late", f"run_dir={tmp_path / 'run'}")
    assert process.stdout.readline().split()[0] == "ready"
    os.kill(process.pid, number)
    ended(process)
    assert process.returncode == -number


@pytest.mark.slow
def test_each_job_of_a_sweep_has_processes_of_its_own(start, tmp_path):
    sweep = tmp_path / "sweep"
    jobs = ["-m", "hires.cli", "train", "-m", "optimizer.lr=0.1,0.01", f"hydra.sweep.dir={sweep}"]
    process = start(*jobs)
    _, error = process.communicate(timeout=4 * MINUTE)
    assert process.returncode == 0, error
    rates = [
        (sweep / str(job) / "config.yaml").read_text().count(f"lr: {lr}") for job, lr in ((0, 0.1), (1, 0.01))
    ]
    assert rates == [1, 1]
    assert all((sweep / str(job) / "result.json").exists() for job in (0, 1))
    assert sorted(each.name for each in sweep.iterdir() if each.is_dir()) == ["0", "1"]
