"""The processes of a training on one machine that its first one starts: how they begin, and how all end with one.

Whoever loses another process in a collective ends by that (`LostProcess`). Here is what no collective tells: that
a process has ended while the others wait for data, evaluate, or have not met yet.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from lightning_fabric.plugins.environments import LightningEnvironment

from hires.engine.stopping import SIGNALS
from hires.interfaces import LostProcess
from hires.ops.parent import end_with_parent

log = logging.getLogger(__name__)

_FIRST = "HIRES_FIRST_PROCESS"
"""Environment variable of those that were started: the number of the process that did."""
_LOOK, _GRACE = 1.0, 10.0
"""Seconds between two looks, and until a process that should end by itself is ended."""
_ENDING = 60.0  # seconds that processes may take to end after a training
_AS_ASKED = (0, *(128 + number for number in SIGNALS))


class Others:
    """Processes that this one has started, by rank. From then on they are watched, until `close`."""

    def __init__(self, processes: dict[int, "subprocess.Popen[bytes]"]):
        self.processes = processes
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="others-watch", daemon=True).start()

    def close(self) -> None:
        """Returns when they have ended, and says which of them did so before their time."""
        self._closing.set()
        error = sys.exc_info()[1]
        end = time.monotonic() + (_GRACE if error else _ENDING)
        while time.monotonic() < end and any(process.poll() is None for process in self.processes.values()):
            time.sleep(_LOOK / 20)
        if isinstance(error, LostProcess):
            log.error("%s", "; ".join(self._lost()) or "a process on another machine has ended")
        for process in self.processes.values():
            process.kill()  # does nothing to those that have ended
            process.wait()

    def _watch(self) -> None:
        while not self._closing.wait(_LOOK):
            lost = self._lost()
            if lost and not self._closing.wait(_GRACE):
                log.error(
                    "The training cannot go on: %s; resume=RUN goes on from the last checkpoint", "; ".join(lost)
                )
                for process in self.processes.values():
                    process.kill()
                os._exit(1)

    def _lost(self) -> list[str]:
        """What has become of those that did not end as they should; those that were killed come alone."""
        codes = {rank: process.poll() for rank, process in self.processes.items()}
        wrong = {rank: code for rank, code in codes.items() if code is not None and code not in _AS_ASKED}
        killed = {rank: code for rank, code in wrong.items() if code < 0}
        return [
            f"process {rank} (pid {self.processes[rank].pid}) {_how(code)}"
            for rank, code in (killed or wrong).items()
        ]


def _how(code: int) -> str:
    if code >= 0:
        return f"has ended with exit code {code}; what it said stands above"
    return f"was ended by signal {-code} ({signal.strsignal(-code)})"


def start_others(environment: LightningEnvironment, here: int, num_nodes: int) -> Others:
    """Starts the other processes of this machine by this one's command line, for Fabric to find them there."""
    node = environment.node_rank()
    os.environ.update(
        MASTER_ADDR=environment.main_address,
        MASTER_PORT=str(environment.main_port),
        NODE_RANK=str(node),
        LOCAL_RANK="0",
        WORLD_SIZE=str(here * num_nodes),
    )
    command, first = _command_line(), {_FIRST: str(os.getpid())}
    return Others(
        {
            node * here + local: subprocess.Popen(command, env={**os.environ, **first, "LOCAL_RANK": str(local)})
            for local in range(1, here)
        }
    )


def _command_line() -> Sequence[str]:
    module = sys.modules["__main__"].__spec__
    script = [os.path.abspath(sys.argv[0])] if module is None else ["-m", module.name]
    return [sys.executable, *script, *sys.argv[1:]]


def end_with_first() -> None:
    """In a process that was started by the first one here: ends it when that one is not there any more."""
    first = os.environ.get(_FIRST)
    if first is None:
        return
    end_with_parent(int(first), lambda: _say_first(first))


def part_from_first() -> None:
    """At the end of such a process: says so if it is the first one that was lost."""
    first = os.environ.get(_FIRST)
    if first is not None and isinstance(sys.exc_info()[1], LostProcess):
        end = time.monotonic() + 2 * _LOOK
        while os.getppid() == int(first) and time.monotonic() < end:
            time.sleep(_LOOK / 10)  # it may be just ending
        if os.getppid() != int(first):
            _say_first(first)


_said = threading.Lock()


def _say_first(first: str) -> None:
    if os.environ.get("LOCAL_RANK") == "1" and _said.acquire(blocking=False):  # one says it for all, once
        print(
            f"The training cannot go on: its first process here (pid {first}) has ended; resume=RUN goes on from "
            "the last checkpoint",
            file=sys.stderr,
            flush=True,
        )
