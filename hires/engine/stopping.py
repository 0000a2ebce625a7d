"""Signals that end a training: at its next step for the first of them, at once for a second one."""

import os
import signal
import socket
import sys
import threading
import time
import uuid
from typing import Any, Self

import torch
import torch.distributed as dist

from hires.engine.ranks import Alone, Ranks, talking
from hires.interfaces import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
APART = 1.0
"""Seconds between two signals that are meant as two: launchers pass on what a process has got already."""
_STACK = 2**18  # bytes: the usual 8 MiB would count as memory of the training


class Stopping:
    """What asks a training to end; a context manager that listens to signals meanwhile.

    Without it, and beside the main thread, nobody asks. All processes of a training come to `agree` and `settle`
    together, and to `look` as often as each likes.
    """

    def __init__(self, ranks: Ranks | None = None):
        self.ranks = ranks or Alone()
        self.signal = 0  # that this process has got; 0: none
        self._notice: _Notice | None = None
        self._listener: _Listener | None = None

    def __enter__(self) -> Self:
        if self.ranks.size > 1:
            self._notice = _Notice(self.ranks)
        if threading.current_thread() is threading.main_thread():
            self._listener = _Listener(self._came)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._listener:
            self._listener.close()
        self._notice = self._listener = None

    def _came(self, number: int) -> None:
        self.signal = self.signal or number

    def agree(self, wish: bool = False) -> tuple[int, bool]:
        """The signal to end by (0: none) and what the main process wishes; the same in all processes."""
        own = torch.tensor([self.signal, wish and self.ranks.main], dtype=torch.int32)
        number, wished = self.ranks.most(own).tolist()
        return number, bool(wished)

    def look(self) -> None:
        """Raises BrokenOff when this process or another one is asked to end; `settle` has to follow."""
        if self.signal and self._notice:
            self._notice.give()
        if self.signal or (self._notice and self._notice.given()):
            raise BrokenOff

    def settle(self) -> None:
        """Raises Interrupted in all processes when one of them is asked to end."""
        number, _ = self.agree()
        if number:
            raise Interrupted(number)


class Unsaved(Interrupted):
    """A signal has ended a training whose last steps are not on disk: started again, it would come no further."""


class BrokenOff(Exception):
    """What is being done need not be done to its end."""


class _Listener:
    """Tells `came` of each signal, in the main thread; a second one ends the process at once.

    The second is seen by a thread: the main one may be in a call that does not return, such as a collective whose
    other processes hang. The terminal has no cursor while there is a progress line: it gets it back.
    """

    def __init__(self, came: Any):
        self.came = came
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._count, name="signals", daemon=True)
        before = threading.stack_size(_STACK)
        self._thread.start()
        threading.stack_size(before)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in heard}

    def close(self) -> None:
        """Handlers are as they were."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup)
        self._writer.shutdown(socket.SHUT_RDWR)  # closing alone would not end it for copies in forks
        self._thread.join()
        self._reader.close()
        self._writer.close()

    def _handle(self, number: int, frame: Any) -> None:
        self.came(number)

    def _count(self) -> None:
        first: float | None = None
        while numbers := self._reader.recv(64):
            for number in numbers:
                if number not in SIGNALS:  # of others, such as that a child has ended
                    continue
                if first is None:
                    first = time.monotonic()
                elif time.monotonic() - first >= APART and number != signal.SIGUSR1:
                    _give_terminal_back()
                    os._exit(128 + number)


def _give_terminal_back() -> None:
    try:
        if sys.__stdout__ is not None and sys.__stdout__.isatty():
            os.write(sys.__stdout__.fileno(), b"\x1b[?25h\n")
    except (OSError, ValueError):
        pass


class _Notice:
    """A word that one process leaves for all, who need not come to it at the same time.

    It lies in the store by which they have found each other: no other port has to be open between machines. The
    store may outlast them (torchrun's does), so that the word's name is new each time.
    """

    def __init__(self, ranks: Ranks):
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._key = ranks.by_main(lambda: f"hires/stop/{uuid.uuid4().hex}")
        with talking():
            self._store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False)
        self._given = False

    def give(self) -> None:
        if not self._given:
            with talking():
                self._store.set(self._key, "1")
            self._given = True

    def given(self) -> bool:
        with talking():
            return bool(self._store.check([self._key]))
