"""What SIGTERM, SIGHUP and SIGUSR1 do to a command, as long as it does not listen to them itself."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from hires.errors import Interrupted

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """They raise Interrupted, as SIGINT raises KeyboardInterrupt.

    So nothing is left half written, and no process goes on that works for this one. Processes that another one has
    started for a training end as they do by default: they may be waiting for it where nothing can be raised. What
    is ignored from the start stays so.
    """
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    if not first or threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _raise) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _raise(number: int, frame: Any) -> NoReturn:
    raise Interrupted(number)
