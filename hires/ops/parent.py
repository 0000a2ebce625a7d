"""Processes that work for another one: they end when it ends, and leave its signals to it."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable

_LOOK = 1.0  # seconds between two looks


def end_with_parent(parent: int, say: Callable[[], None] = lambda: None) -> None:
    """Ends this process, with code 1, when the one that started it has ended; `say` is called first.

    `parent` is the number of that one, as it has told itself: it may have ended already, and another one be the
    parent by now.
    """
    threading.Thread(target=_watch, args=(parent, say), name="parent-watch", daemon=True).start()


def as_parent() -> int | None:
    """What `work_for_parent` is to be told: this process's number; None where a server starts workers for it."""
    return None if multiprocessing.get_context().get_start_method() == "forkserver" else os.getpid()


def work_for_parent(told: int | None) -> None:
    """In a worker of the process that it works for: that one alone decides when to end. `told` is `as_parent()`.

    A terminal and a job scheduler send their signals to all processes of a job. SIGINT and SIGUSR1 are ignored,
    and SIGTERM counts only from the parent, whose way it is to end workers.
    """
    parent = os.getppid() if told is None else told
    signal.set_wakeup_fd(-1)  # the parent's
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if not hasattr(signal, "sigtimedwait"):  # macOS
        end_with_parent(parent)
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Thread(target=_listen, args=(parent,), name="parent-watch", daemon=True).start()


def _watch(parent: int, say: Callable[[], None]) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    say()
    os._exit(1)


def _listen(parent: int) -> None:
    process = multiprocessing.parent_process()
    workplace = process.pid if process else parent  # another one where a server forks for it
    while os.getppid() == parent:
        told = signal.sigtimedwait([signal.SIGTERM], _LOOK)
        if told and told.si_pid == workplace:
            os._exit(0)
    os._exit(1)
