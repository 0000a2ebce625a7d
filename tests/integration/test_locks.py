"""A run directory has one trainer at a time, whatever ends it, and commands in one folder do not collide."""

import errno
import fcntl
import json
import multiprocessing
import os
import signal
import socket
import threading

import pytest

from hires.data.demo import DemoSettings, ensure_demo
from hires.engine import lock
from hires.engine.lock import NAME, RunLock, check_free, holder
from hires.interfaces import ConfigError
from tests.forks import command, forked

SECONDS = 120


@pytest.fixture
def start():
    """Starts a process that takes a directory and keeps it; whatever is left is ended after the test."""
    started = []

    def run(run_dir, worker=False):
        ready, said = multiprocessing.Pipe(duplex=False)
        started.append(forked(_keep, run_dir, said, worker))
        assert ready.poll(SECONDS)
        return started[-1], ready.recv()

    yield run
    for process in started:
        process.kill()


def _keep(run_dir, said, worker):
    with RunLock() as held:
        held.take(run_dir)
        if worker:
            said.send(forked(threading.Event().wait).pid)  # it outlives its parent
        said.send(None)
        threading.Event().wait()


def test_a_second_trainer_is_refused(start, tmp_path):
    first, _ = start(tmp_path)
    who = rf"{tmp_path} is in use by process {first.pid} on {socket.gethostname()}, since .*; wait until"
    with RunLock() as mine, pytest.raises(ConfigError, match=who):
        mine.take(tmp_path)
    with pytest.raises(ConfigError, match=who):
        check_free(tmp_path)


def test_a_killed_trainer_blocks_nobody(start, tmp_path):
    """Nor does a worker of it that is still there."""
    first, worker = start(tmp_path, worker=True)
    try:
        os.kill(first.pid, signal.SIGKILL)
        assert first.wait(SECONDS) == -signal.SIGKILL
        os.kill(worker, 0)
        with RunLock() as mine:
            assert mine.take(tmp_path) == tmp_path
            assert holder(tmp_path).pid == os.getpid()
    finally:
        os.kill(worker, signal.SIGKILL)


def test_whoever_has_ended_blocks_nobody(tmp_path):
    for _ in range(2):
        with RunLock() as mine:
            mine.take(tmp_path)
            assert not holder(tmp_path).ended
        assert holder(tmp_path).ended


@pytest.fixture
def no_locks(monkeypatch):
    """As some network file systems."""

    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)


def test_without_locks_the_process_is_looked_for(start, tmp_path, no_locks):
    first, _ = start(tmp_path)
    with RunLock() as mine, pytest.raises(ConfigError, match=rf"process {first.pid} on .*remove {tmp_path}"):
        mine.take(tmp_path)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(SECONDS)
    with RunLock() as mine:
        mine.take(tmp_path)


@pytest.mark.parametrize(
    ("change", "free"),
    [({"started": "0"}, True), ({"host": "elsewhere"}, False), ({"host": "elsewhere", "ended": True}, True)],
    ids=["number of another process", "other host", "other host, ended"],
)
def test_without_locks_the_process_is_told_from_others(tmp_path, no_locks, change, free):
    with RunLock() as mine:
        mine.take(tmp_path)
        said = json.loads((tmp_path / NAME).read_text())
    (tmp_path / NAME).write_text(json.dumps({**said, "ended": False, **change}))
    if free:
        check_free(tmp_path)
        return
    with pytest.raises(ConfigError, match="on elsewhere"):
        check_free(tmp_path)


@pytest.mark.parametrize("restart", ["1", "2"])
def test_without_locks_an_earlier_start_of_the_same_job_is_over(tmp_path, no_locks, monkeypatch, restart):
    """SLURM has killed it before it starts the job again, maybe on another machine."""
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with RunLock() as mine:
        mine.take(tmp_path)
        said = json.loads((tmp_path / NAME).read_text())
    (tmp_path / NAME).write_text(json.dumps({**said, "ended": False, "host": "elsewhere"}))
    monkeypatch.setenv("SLURM_RESTART_COUNT", restart)
    with RunLock() as mine:
        if restart == "2":
            assert mine.take(tmp_path) == tmp_path
        else:  # another step of this start
            with pytest.raises(ConfigError, match="on elsewhere"):
                mine.take(tmp_path)


def test_a_command_that_only_looks_is_waited_for(tmp_path, monkeypatch):
    with RunLock() as mine:
        mine.take(tmp_path)
    looking = os.open(tmp_path / NAME, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    with monkeypatch.context() as patched, RunLock() as mine:
        patched.setattr(lock.time, "sleep", lambda seconds: os.close(looking))
        assert mine.take(tmp_path) == tmp_path


@pytest.mark.parametrize("key", ["resume", "run_dir"])
def test_the_command_line_is_refused_in_one_line(start, hires, shapes_overrides, tmp_path, key):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "config.yaml").write_text("data: {}\n")
    first, _ = start(run_dir)
    code, _, error = hires("train", *shapes_overrides, f"{key}={run_dir}")
    assert code == 2
    (line,) = error.strip().splitlines()
    assert line.startswith(f"run_dir: {run_dir} is in use by process {first.pid} on {socket.gethostname()}")


def test_the_demo_data_is_made_by_two_at_once(tmp_path):
    settings = DemoSettings(size=128, train=2, val=1, test=1)
    both = [forked(ensure_demo, tmp_path / "data" / "demo", settings) for _ in range(2)]
    assert [each.wait(SECONDS) for each in both] == [0, 0]
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["demo"]
    assert json.loads((tmp_path / "data/demo/demo.json").read_text())["settings"]["size"] == 128
    assert len(list((tmp_path / "data/demo").glob("*/images/*.png"))) == 4


@pytest.mark.slow
def test_commands_at_the_same_time_in_one_folder(shapes_overrides, tmp_path, monkeypatch):
    """Four trainings that begin in the same second, then readers of what they have left, all with one cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIRES_CACHE", str(tmp_path / "cache"))
    plain = [o for o in shapes_overrides if not o.startswith(("run_dir=", "trainer.max_steps="))]
    overrides = [*plain, "trainer.max_steps=1", "data.cache_gib=1"]
    trainings = [command(tmp_path / f"train{i}", "train", *overrides) for i in range(4)]
    assert [each.wait(SECONDS) for each in trainings] == [0] * 4, trainings[0].said()
    runs = sorted((tmp_path / "runs" / "default").iterdir())
    assert len(runs) == 4
    assert all((run / "result.json").exists() for run in runs)
    reading = [o for o in plain if o.startswith("data")]
    lines = [("evaluate", f"run={runs[0]}")] * 2 + [("check-data", *reading)] * 2
    readers = [command(tmp_path / f"read{i}", *line) for i, line in enumerate(lines)]
    assert [each.wait(SECONDS) for each in readers] == [0] * 4, [each.said() for each in readers]
    assert json.loads((runs[0] / "evaluate/val-best/result.json").read_text())["metrics"]
    assert len(list((tmp_path / "runs").rglob("data.json"))) == 2
