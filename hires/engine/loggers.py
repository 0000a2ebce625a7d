"""Fabric's loggers, which may fail without harm and go on in a resumed run: metrics.jsonl is what counts."""

import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from lightning_fabric.loggers import TensorBoardLogger

log = logging.getLogger(__name__)

Record = Mapping[str, Any]


class Logger(Protocol):
    """A subset of Fabric's loggers."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None: ...


class Lenient:
    """A logger whose errors are told once, and again when it works again; they never end a training."""

    def __init__(self, logger: Logger):
        self.logger, self.name = logger, type(logger).__name__
        self.failing = False
        self._used = False
        self._purge_step: int | None = None  # of events, before the next one

    def log(self, record: Record) -> None:
        """Passes the numbers of a record on."""
        with self._tolerated():
            self._purge()
            self.logger.log_metrics(numbers(record), step=record["step"])

    def restart(self, records: Sequence[Record], step: int) -> None:
        """Goes on after a step, up to which there are these records.

        A table is made anew of them, since Fabric's logger deletes that of a run which it goes on with. Of events
        the later ones are declared void, when the next one comes: a file of events is made as soon as one asks for
        its writer. Others keep what they have.
        """
        if isinstance(self.logger, TensorBoardLogger):
            self._purge_step = step + 1
            return
        with self._tolerated(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Experiment logs directory")
            writer: Any = getattr(self.logger, "experiment", None)
            if hasattr(writer, "metrics_file_path"):
                self._fill(writer, records)

    def _purge(self) -> None:
        if self._purge_step is not None:
            writer: Any = self.logger.experiment  # type: ignore[attr-defined]
            writer.close()
            writer.purge_step, self._purge_step = self._purge_step, None  # counts when it opens a file again

    def catch_up(self, record: Record, records: Callable[[], Sequence[Record]]) -> None:
        """After a failure: a record, and what is possible of those before it; `records` gives all, read again.

        A table may lack lines, or have halves of them, and is made anew. Events get another file, and stay without
        those that were lost.
        """
        with self._tolerated():
            writer: Any = getattr(self.logger, "experiment", None)
            if hasattr(writer, "metrics_file_path"):
                self._fill(writer, records())
                return
            if hasattr(writer, "file_writer"):
                writer.file_writer = writer.all_writers = None  # the thread behind it may have ended
            self.logger.log_metrics(numbers(record), step=record["step"])

    def _fill(self, writer: Any, records: Sequence[Record]) -> None:
        Path(writer.metrics_file_path).unlink(missing_ok=True)
        writer.metrics = []
        for record in records:
            writer.log_metrics(numbers(record), record["step"])
        self.logger.save()  # type: ignore[attr-defined]

    def close(self) -> None:
        if not self._used:
            return
        with self._tolerated():
            getattr(self.logger, "save", lambda: None)()
            getattr(self.logger, "finalize", lambda status: None)("success")
        self._used = False
        _quiet.end(self)

    @contextmanager
    def _tolerated(self) -> Iterator[None]:
        self._used = True
        _quiet.begin(self)
        try:
            yield
        except Exception as error:  # whatever a library makes of a full disk or a lost connection
            if not self.failing:
                said = error.__cause__ or error
                reason = next(iter(str(said).splitlines()), "") or type(said).__name__
                log.error("%s: cannot log (%s); metrics.jsonl has its records", self.name, reason)
            self.failing = True
        else:
            if self.failing:
                log.info("%s: logs again", self.name)
            self.failing = False


def numbers(record: Record) -> dict[str, float]:
    """What of a record loggers take: its numbers, as `train/loss`."""
    kind = record["kind"]
    values = {name: value for name, value in record.items() if name not in ("kind", "step", "time")}
    return {f"{kind}/{k}": v for k, v in values.items() if isinstance(v, (int, float)) and v == v}


class _Quiet:
    """Says nothing of TensorBoard's thread that ends with an error: its writer raises that again.

    The hook of all threads of the process, as long as a logger is at work.
    """

    def __init__(self) -> None:
        self._others: Callable[[Any], Any] = threading.__excepthook__
        self._users: WeakSet[Lenient] = WeakSet()

    def begin(self, user: Lenient) -> None:
        if not self._users and threading.excepthook is not self:
            self._others, threading.excepthook = threading.excepthook, self
        self._users.add(user)

    def end(self, user: Lenient) -> None:
        self._users.discard(user)
        if not self._users and threading.excepthook is self:
            threading.excepthook = self._others

    def __call__(self, ended: Any) -> None:
        if not type(ended.thread).__module__.startswith("tensorboard."):
            self._others(ended)


_quiet = _Quiet()
