"""The memory of this process as the system counts it: what it has, by how much it grows, a limit to that."""

import ctypes
import resource
import threading
from pathlib import Path
from typing import Any, Self

THRESHOLD = 65536
"""Bytes from which an allocation of malloc's has pages of its own, which go back when it is freed."""
STACK = 2**20  # bytes of a thread's stack; 8 MiB otherwise
_M_MMAP_THRESHOLD = -3  # of mallopt


def vm_data() -> int | None:
    """Bytes of writable private memory of this process; None where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), None)


def limit_data(most: int) -> int:
    """From here on this process can have at most so many bytes (VmData); what is beyond fails, as on a full GPU.

    Freed memory goes back to the system, for good, so that it does not count. Returns the limit that was there.
    """
    fix_threshold()
    before, _ = resource.getrlimit(resource.RLIMIT_DATA)
    set_limit(most)
    return before


def set_limit(most: int) -> None:
    """Sets the limit, up to the one that cannot be exceeded."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    none = resource.RLIM_INFINITY
    resource.setrlimit(
        resource.RLIMIT_DATA, (most if hard == none else hard if most == none else min(most, hard), hard)
    )


def lift_limit() -> None:
    """As much as there is, as for processes that were begun by one with a limit."""
    set_limit(resource.RLIM_INFINITY)


def fix_threshold() -> None:
    """Has malloc give back what is freed, where the C library can; it moves the threshold otherwise."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, THRESHOLD)


def give_back() -> None:
    """As `fix_threshold`, with small stacks for the threads of Python that begin later: they count as they are."""
    fix_threshold()
    threading.stack_size(STACK)


class Growth:
    """By how much the process's writable private memory (VmData) grew at most, looked up every millisecond."""

    def __init__(self, before: int | None = None) -> None:
        """`before`: what to count from; None: what is there when it begins."""
        self._before, self._started = before, before
        self.bytes: int | None = None
        self.parts: list[int] = []  # the most of each part that `mark` ended
        self._part = 0
        self._begun, self._end = threading.Event(), threading.Event()
        self._watch = threading.Thread(target=self._watching, daemon=True)

    def __enter__(self) -> Self:
        self._started = vm_data()
        self._watch.start()
        self._begun.wait()
        return self

    def __exit__(self, *error: Any) -> None:
        self._end.set()
        self._watch.join()

    def mark(self) -> None:
        """Ends a part of what is measured."""
        self.parts.append(self._part)
        self._part = 0

    def _watching(self) -> None:
        before = vm_data()  # here, so that the thread's own stack is not counted
        if None not in (before, self._before, self._started):
            before = self._before + before - self._started  # type: ignore[operator]
        self._begun.set()
        while before is not None:
            ended = self._end.wait(0.001)
            now = (vm_data() or 0) - before
            self.bytes, self._part = max(now, self.bytes or 0), max(now, self._part)
            if ended:
                return
