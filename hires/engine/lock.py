"""Keeps a second trainer out of a run directory that one writes to."""

import errno
import fcntl
import json
import logging
import os
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from hires.engine.slurm import job_id, starts
from hires.interfaces import ConfigError

log = logging.getLogger(__name__)

NAME = ".lock"
"""The file that is locked, which also says by whom."""
_MOST_PROCESSES = 2**31  # numbers from here on are no process's
_BUSY = (errno.EWOULDBLOCK, errno.EACCES)
_LOOKED_AT = 2.0
"""Seconds for which a lock may be another command's that only looks, or that of a process that is just ending."""


class Holder(NamedTuple):
    """The process that writes to a run directory, or the last one that did."""

    host: str
    pid: int
    started: str | None  # tells it from a later process of the same number; None: not known
    since: str
    job: str | None = None  # of SLURM
    ended: bool = False
    starts: int = 0  # of the job, before this one

    @property
    def is_here(self) -> bool:
        return self.host == socket.gethostname()

    @property
    def may_be_alive(self) -> bool:
        """Whether it may still run; of another host nobody here knows, but an earlier start of our job is over."""
        if self.ended or (self.job is not None and self.job == job_id() and self.starts < starts()):
            return False
        return not self.is_here or (_exists(self.pid) and _started(self.pid) == self.started)


class RunLock:
    """Holds run directories for this process; a context manager that lets go of them.

    The lock is the system's, on a file in the directory, and ends with the process whatever ends it. Where the
    file system has no locks, the holder's name and number are all there is to go by.
    """

    def __init__(self) -> None:
        self._held: list[int] = []

    def take(self, run_dir: Path) -> Path:
        """The directory, which exists, as this process's. Raises ConfigError where another one has it."""
        handle = _locked(run_dir, fcntl.LOCK_EX)
        self._held.append(handle)
        _handles.add(handle)
        _close_in_forks()
        _write(handle, _own())
        return run_dir

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        while self._held:
            handle = self._held.pop()
            before = _read(handle)
            if before:
                _write(handle, before._replace(ended=True))
            _handles.discard(handle)
            os.close(handle)


def holder(run_dir: Path) -> Holder | None:
    """Who has or had a run directory; None where nobody is known."""
    try:
        handle = os.open(run_dir / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        return _read(handle)
    finally:
        os.close(handle)


def check_free(run_dir: Path) -> None:
    """Raises ConfigError for a directory that another process has, before what takes long."""
    if (run_dir / NAME).exists():
        os.close(_locked(run_dir, fcntl.LOCK_SH))


def _locked(run_dir: Path, how: int) -> int:
    """The file, open and locked. Raises ConfigError."""
    path = run_dir / NAME
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ConfigError(f"run_dir: {path} cannot be written ({error.strerror}); choose another") from error
    try:
        _wait(handle, how)
    except OSError as error:
        by = _read(handle)
        if error.errno in _BUSY or (by and by.may_be_alive):
            os.close(handle)
            unsure = f"; if it has ended, remove {path}, since there are no locks to tell"
            raise _in_use(run_dir, by, "" if error.errno in _BUSY else unsure) from None
        if how == fcntl.LOCK_EX:
            log.info("%s: no locks here (%s); what it says keeps others out", path, error.strerror)
    return handle


def _wait(handle: int, how: int) -> None:
    """Locks the file, at once or a little later where no process is known that has it. Raises OSError."""
    end = time.monotonic() + _LOOKED_AT
    while True:
        try:
            return fcntl.flock(handle, how | fcntl.LOCK_NB)
        except OSError as error:
            by = _read(handle)
            known = by is not None and by.is_here and by.may_be_alive
            if error.errno not in _BUSY or known or time.monotonic() > end:
                raise
        time.sleep(_LOOKED_AT / 40)


def _own() -> Holder:
    host, pid, job, since = socket.gethostname(), os.getpid(), job_id(), time.strftime("%F %T")
    return Holder(host, pid, _started(pid), since, job, starts=starts())


def _in_use(run_dir: Path, by: Holder | None, hint: str) -> ConfigError:
    who = f"process {by.pid} on {by.host}, since {by.since}" if by else "another process"
    return ConfigError(f"run_dir: {run_dir} is in use by {who}; wait until it has ended, or end it{hint}")


def _read(handle: int) -> Holder | None:
    try:
        found = Holder(**json.loads(os.pread(handle, 4096, 0)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    is_ours = type(found.pid) is int and 0 < found.pid < _MOST_PROCESSES and type(found.starts) is int
    return found if is_ours else None


def _write(handle: int, by: Holder) -> None:
    text = json.dumps(by._asdict()).encode() + b"\n"
    try:
        os.pwrite(handle, text, 0)
        os.ftruncate(handle, len(text))
    except OSError as error:  # a full disk: the lock is held all the same
        log.debug("%s cannot be written: %s", NAME, error.strerror)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _started(pid: int) -> str | None:
    """When a process started, in ticks since the system did; None where the system does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


_handles: set[int] = set()
_watching: list[bool] = []


def _close_in_forks() -> None:
    """A fork, such as a worker, would hold the lock as long as it lives, which may be longer than this process."""
    if not _watching:
        os.register_at_fork(after_in_child=_let_go)
        _watching.append(True)


def _let_go() -> None:
    while _handles:
        os.close(_handles.pop())
