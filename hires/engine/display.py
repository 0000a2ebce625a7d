"""The terminal: a progress line where there is a terminal, plain lines elsewhere."""

import csv
import io
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from hires.engine.file_log import FileLog

log = logging.getLogger(__name__)


ALIKE = {"alike": True}
"""`extra` of a record that all processes of a training make alike: the main one shows it."""


def log_to(console: Console, file: Path | None) -> None:
    """Sends the log of hires to the console and to a file; called once by each command."""
    handlers: list[logging.Handler] = [console_handler(console)]
    if file is not None:
        to_file = FileLog(file)
        to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(to_file)
    _log_with(handlers, logging.INFO)


def log_beside(rank: int) -> None:
    """Sends what this process alone warns of to stderr: the main process says the rest."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"process {rank}: %(message)s"))
    handler.addFilter(lambda record: not hasattr(record, "alike"))
    _log_with([handler], logging.WARNING)


def _log_with(handlers: list[logging.Handler], level: int) -> None:
    logger = logging.getLogger("hires")
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.setLevel(level)
    logger.propagate = False
    for handler in handlers:
        logger.addHandler(handler)


class Terminal(Console):
    """Goes on without output when nobody reads it any more, as after `| head`."""

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except BrokenPipeError:
            _silence()
        except OSError:
            pass  # a file on a full disk: what is shown is not worth the training

    def on_broken_pipe(self) -> None:
        """What newer versions of rich call instead."""
        _silence()


class _Lines(logging.StreamHandler[Any]):
    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, BrokenPipeError):
            _silence()
        elif not isinstance(error, OSError):
            super().handleError(record)


def _silence() -> None:
    """Nothing that is still written to stdout goes anywhere, what the interpreter flushes at its end included."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def console_handler(console: Console) -> logging.Handler:
    if console.is_terminal:
        return RichHandler(console=console, show_path=False, show_level=False, log_time_format="%X")
    plain = _Lines(console.file)
    plain.setFormatter(logging.Formatter("%(message)s"))
    return plain


def show_metrics(console: Console, metrics: Mapping[str, float]) -> None:
    """Overall scores, then a table with one row for each class."""
    scores, rows = by_class(metrics)
    for name, value in scores.items():
        console.print(f"{name:16} {value:.4f}", highlight=False)
    if rows:
        kinds = list(next(iter(rows.values())))
        table = Table("class", *kinds, box=None, pad_edge=False)
        for label, row in rows.items():
            table.add_row(label, *(f"{row[kind]:.4f}" for kind in kinds))
        console.print(table)


def by_class(metrics: Mapping[str, float]) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Metrics named KIND apart from those named KIND/CLASS, the latter as {class: {kind: value}}."""
    scores: dict[str, float] = {}
    rows: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        kind, _, label = name.partition("/")
        if label:
            rows.setdefault(label, {})[kind] = value
        else:
            scores[name] = value
    return scores, rows


def class_table(metrics: Mapping[str, float]) -> str:
    """The metrics of each class as CSV, one row a class."""
    _, rows = by_class(metrics)
    kinds = list(next(iter(rows.values()), {}))
    lines = [["class", *kinds], *([label, *(str(row[kind]) for kind in kinds)] for label, row in rows.items())]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


class Display:
    """Progress of a training; a context manager that gives the terminal back."""

    def __init__(self, console: Console, max_steps: int, start_step: int = 0):
        self.max_steps = max_steps
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._plain = not console.is_terminal
        self._train = self._bars.add_task(
            "training", total=max_steps, completed=start_step, note="", visible=max_steps > 0
        )
        self._evaluate = self._bars.add_task("evaluating", total=None, visible=False, note="images")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def stepped(self, step: int) -> None:
        self._bars.update(self._train, completed=step)

    def trained(self, step: int, values: Mapping[str, float | None]) -> None:
        """Shows the numbers of a log interval."""
        note = "  ".join(f"{name} {value:.4g}" for name, value in values.items() if value is not None)
        self._bars.update(self._train, note=note)
        if self._plain:
            log.info("step %d/%d  %s", step, self.max_steps, note)

    def evaluating(self, done: int, total: int) -> None:
        """Images done, and how many there are."""
        self._bars.update(self._evaluate, completed=done, total=total, visible=done < total)

    def evaluated(self, step: int, metric: str, value: float) -> None:
        log.info("step %d/%d  evaluated: %s %.4f", step, self.max_steps, metric, value)
