"""Signals that are sent to real trainings: what they leave, and that it goes on to the same bits."""

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import threading

import pytest
import torch

from hires.engine.checkpointer import Checkpointer
from hires.engine.stopping import SIGNALS, Stopping
from hires.engine.trainer import Trainer
from tests.forks import command

SECONDS, STEPS = 300, 6
TIMES = ("time", "seconds_per_step", "images_per_second")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("signals")


@pytest.fixture
def train(shapes_overrides, tmp_path):
    """Starts a training of six steps that evaluates after the third."""

    def start(run_dir, *more):
        kept = [o for o in shapes_overrides if not o.startswith(("run_dir=", "trainer.max_steps=", "evaluation."))]
        settings = ["trainer.ema_decay=0.9", "trainer.log_every=2", "evaluation.every=3", f"run_dir={run_dir}"]
        return command(tmp_path / run_dir.name, "train", *kept, f"trainer.max_steps={STEPS}", *settings, *more)

    return start


@pytest.fixture
def whole(train, folder):
    """A run that nobody has disturbed."""
    run_dir = folder / "whole"
    if not (run_dir / "result.json").exists():
        shutil.rmtree(run_dir, ignore_errors=True)
        training = train(run_dir)
        assert training.wait(SECONDS) == 0, training.said()
    return run_dir


def resumed(run_dir, says, *more):
    """The run, after it was told to go on."""
    training = command(says / "resumed", "train", f"resume={run_dir}", *more)
    assert training.wait(SECONDS) == 0, training.said()
    return run_dir


def state(run_dir, name="last"):
    """All values of a checkpoint by their place in it."""

    def leaves(value, place):
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if pairs is None:
            return {place: value}
        return {k: v for key, each in pairs for k, v in leaves(each, f"{place}.{key}").items()}

    return leaves(torch.load(run_dir / "checkpoints" / f"{name}.pt", weights_only=True), "")


def assert_same(one, other):
    for name in ("last", "best"):
        a, b = state(one, name), state(other, name)
        assert a.keys() == b.keys()
        for key, value in a.items():
            same = torch.equal(value, b[key]) if isinstance(value, torch.Tensor) else value == b[key]
            assert same, key
    assert lines(one) == lines(other)


def lines(run_dir):
    read = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in read]


def after_step(monkeypatch, step, act):
    """Does something in a training when it has done a step, before it looks for signals."""
    original = Trainer._after_step

    def patched(self, batch_size):
        if self.progress.step == step:
            act()
        original(self, batch_size)

    monkeypatch.setattr(Trainer, "_after_step", patched)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A job of SLURM; the file that its scontrol writes what it was told to."""
    told, fake = tmp_path / "told", tmp_path / "bin" / "scontrol"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {told}\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    return told


QUICK = (signal.SIGTERM, signal.SIGUSR1)


@pytest.mark.parametrize(
    "number",
    [pytest.param(each, id=each.name, marks=[] if each in QUICK else pytest.mark.slow) for each in SIGNALS],
)
def test_a_signal_saves_and_ends(train, whole, slurm, tmp_path, monkeypatch, number):
    """To the whole group, as a terminal and a job scheduler do; workers leave it to the trainer."""
    run_dir = tmp_path / "run"
    with monkeypatch.context() as patched:
        after_step(patched, 2, lambda: os.killpg(os.getpid(), number))
        training = train(run_dir, "data.workers=2")
        assert training.wait(SECONDS) == 128 + number, training.said()
    assert not training.left(10)
    output, error = training.said()
    assert error == ""
    assert f"{number.name}: stopped after step 2, which {run_dir}/checkpoints/last.pt holds" in output
    assert f"resume={run_dir} goes on from there" in output
    assert state(run_dir)[".progress.step"] == 2
    assert slurm.exists() == (number == signal.SIGUSR1)
    if number == signal.SIGUSR1:
        assert slurm.read_text() == "requeue 4711\n"
        assert "SLURM has job 4711 in its queue again" in output
    if number == signal.SIGTERM:  # the others stop in the same way
        assert_same(resumed(run_dir, tmp_path), whole)


def test_an_evaluation_is_broken_off_and_made_again(train, whole, tmp_path, monkeypatch):
    looked = Stopping.look

    def look(self):
        os.kill(os.getpid(), signal.SIGTERM)
        looked(self)

    run_dir = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(Stopping, "look", look)
        training = train(run_dir)
        assert training.wait(SECONDS) == 143, training.said()
    assert state(run_dir)[".progress.step"] == 3
    assert state(run_dir)[".progress.evaluated_step"] == 0
    page = (run_dir / "report.html").read_text()
    assert "The training has not ended: 3 steps of 6 are done." in page
    assert "reserved, measured" in page
    assert "of the process that ended the training" in page
    assert_same(resumed(run_dir, tmp_path), whole)


@pytest.mark.slow
def test_a_second_signal_leaves_the_checkpoint_before(train, whole, tmp_path, monkeypatch):
    """It ends a save that does not come to its end, or anything else."""
    original = Checkpointer.save

    def save(self, *names):
        if self.parts["progress"].step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()
        original(self, *names)

    run_dir = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("hires.engine.stopping.APART", 0.0)
        patched.setattr(Checkpointer, "save", save)
        after_step(patched, 2, lambda: os.kill(os.getpid(), signal.SIGINT))
        training = train(run_dir, "trainer.checkpoint_every=1", "data.workers=1")
        assert training.wait(SECONDS) == 143, training.said()
    assert not training.left(10)
    assert state(run_dir)[".progress.step"] == 1
    assert_same(resumed(run_dir, tmp_path, "trainer.checkpoint_every=100"), whole)


@pytest.mark.slow
def test_workers_of_a_trainer_that_is_killed_end(train, tmp_path, monkeypatch):
    run_dir = tmp_path / "run"
    with monkeypatch.context() as patched:
        after_step(patched, 2, lambda: os.kill(os.getpid(), signal.SIGKILL))
        training = train(run_dir, "data.workers=2")
        assert training.wait(SECONDS) == -signal.SIGKILL
    assert not training.left(10)


def test_requeue_that_fails_is_told(train, slurm, tmp_path, monkeypatch):
    (tmp_path / "bin" / "scontrol").write_text("#!/bin/sh\necho slurm_requeue error: Invalid user >&2\nexit 1\n")
    after_step(monkeypatch, 1, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    training = train(tmp_path / "run")
    assert training.wait(SECONDS) == 138
    assert "job 4711 is not in its queue again (scontrol requeue 4711: slurm_requeue error" in training.said()[0]


SHORT = ("trainer.max_steps=2", "evaluation.every=null", "trainer.checkpoint_every=1")


def test_a_stop_that_cannot_be_saved_is_not_queued_again(train, slurm, tmp_path, monkeypatch):
    """It would be stopped there again and again."""
    write = Checkpointer._write

    def full(self, state, *names):
        if state["progress"]["step"] == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, state, *names)

    monkeypatch.setattr(Checkpointer, "_write", full)
    after_step(monkeypatch, 2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    training = train(tmp_path / "run", *SHORT)
    assert training.wait(SECONDS) == 138, training.said()
    said = training.said()[0]
    assert "stopped after step 2, which is not on disk; last.pt is still that of step 1" in said
    assert "not put into SLURM's queue again" in said
    assert not slurm.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_stop_before_the_first_step_is_told(train, tmp_path, monkeypatch, number):
    monkeypatch.setattr("hires.build.prepare", lambda *_: signal.raise_signal(number))
    training = train(tmp_path / "run")
    assert training.wait(SECONDS) == 128 + number, training.said()
    assert f"{number.name}: stopped before the first step" in training.said()[0]


def test_a_signal_after_the_last_step_ends_what_would_follow(train, tmp_path, monkeypatch):
    """Such as the next job of a sweep; the run itself is done."""
    original = Trainer.fit

    def fit(self, batches):
        original(self, batches)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Trainer, "fit", fit)
    training = train(tmp_path / "run", *SHORT)
    assert training.wait(SECONDS) == 143, training.said()
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 2


@pytest.mark.slow
def test_a_job_that_slurm_starts_again_goes_on_with_its_own_run(train, tmp_path, monkeypatch):
    """By the same command line, although another run of the experiment is newer."""
    monkeypatch.chdir(tmp_path)
    words = ("run_dir=null", "resume=auto", "evaluation.every=null")
    with monkeypatch.context() as patched:
        after_step(patched, 1, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        for job in ("1", "2"):
            patched.setenv("SLURM_JOB_ID", job)
            patched.setenv("PATH", "")
            says = tmp_path / job
            assert train(says, *words, *(["resume=null"] if job == "2" else [])).wait(SECONDS) == 138
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert train(tmp_path / "again", *words).wait(SECONDS) == 0
    runs = {
        json.loads((path / ".lock").read_text())["job"]: path for path in (tmp_path / "runs/default").iterdir()
    }
    assert sorted(runs) == ["1", "2"]
    assert state(runs["1"])[".progress.step"] == STEPS
    assert state(runs["2"])[".progress.step"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_search_ends_at_once_with_its_measurement(train, tmp_path, monkeypatch, number):
    """Before the first step nothing is there to be saved."""
    communicate, pids = subprocess.Popen.communicate, tmp_path / "pids"

    def asked(self, *arguments, **options):
        pids.write_text(str(self.pid))
        os.kill(os.getpid(), number)
        return communicate(self, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "communicate", asked)
    training = train(tmp_path / "run", "memory.maximize=batch", "memory.budget=1GiB", "micro_batch_size=auto")
    assert training.wait(SECONDS) == 128 + number, training.said()
    assert training.said()[1] == ""
    assert not training.left(10)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)
