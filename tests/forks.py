"""Functions in processes of their own: forks, so that nothing has to be imported again."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hires.cli import main


def renew_threads() -> None:
    """Has torch replace the pool of threads that a fork has lost; several threads at once would fail at that."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(torch.get_num_threads())


def _begun(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    renew_threads()
    function(*arguments)


class Fork:
    """A process that runs a function; `wait` gives its exit code, negative for the signal that ended it."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]):
        self.process = multiprocessing.get_context("fork").Process(target=_begun, args=(function, arguments))
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait(self, seconds: float) -> int:
        end = time.monotonic() + seconds
        while (code := self.process.exitcode) is None:  # `join` would wait for forks of it too
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"not ended after {seconds} s")
            time.sleep(0.02)
        return code

    def kill(self) -> None:
        self.process.kill()


def forked(function: Callable[..., Any], *arguments: Any) -> Fork:
    """Starts a function in a fork of this process."""
    return Fork(function, arguments)


class Command(Fork):
    """The command line in a process, and a session, of its own; what it says goes to two files."""

    def __init__(self, says: Path, words: tuple[str, ...]):
        self.says = says
        super().__init__(_run, (says, words))

    def said(self) -> tuple[str, str]:
        """What came to stdout and stderr."""
        return self.says.with_suffix(".out").read_text(), self.says.with_suffix(".err").read_text()

    def left(self, seconds: float) -> bool:
        """Whether processes of its session are left after so long."""
        end = time.monotonic() + seconds
        while there(self.pid):
            if time.monotonic() > end:
                os.killpg(self.pid, signal.SIGKILL)
                return True
            time.sleep(0.05)
        return False


def there(group: int) -> bool:
    """Whether a process of a group is there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _run(says: Path, words: tuple[str, ...]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, suffix in ((1, ".out"), (2, ".err")):
        handle = os.open(says.with_suffix(suffix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.__stdout__ = sys.stdout
    sys.argv = ["hires", *words]
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


def command(says: Path, *words: str) -> Command:
    """Starts `hires WORDS` in a fork of this process, with what has been patched in it."""
    return Command(says, words)
