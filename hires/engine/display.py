"""The terminal: a progress line where there is a terminal, plain lines elsewhere."""

import csv
import io
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from hires import verbosity
from hires.engine.file_log import FileLog
from hires.ops.printable import printable
from hires.visualize.report_scores import by_class
from hires.visualize.text import seconds, size

log = logging.getLogger(__name__)


Memory = tuple[int | None, int | None, int | None]
_UNKNOWN: Memory = (None, None, None)
_WIDE = 130  # letters of a terminal from which there is room for words

SECONDS = 10.0
"""Between two lines of an evaluation where there is no terminal."""

ALIKE = {"alike": True}
"""`extra` of a record that all processes of a training make alike: the main one shows it."""


def log_to(console: Console, file: Path | None) -> None:
    """Sends the log of hires to the console and to a file; called once by each command."""
    handlers: list[logging.Handler] = [console_handler(console)]
    if file is not None:
        to_file = FileLog(file)
        to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(to_file)
    _log_with(handlers, logging.DEBUG if verbosity.is_verbose() else logging.INFO)


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
        handler.addFilter(_made_printable)
        logger.addHandler(handler)


def _made_printable(record: logging.LogRecord) -> bool:
    """Makes what a name holds harmless; every record passes."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


class Terminal(Console):
    """Goes on without output when nobody reads it any more, as after `| head`; silent where log_level says so.

    Without colours where NO_COLOR is set.
    """

    def __init__(self, **options: Any):
        silent = {"quiet": True, "force_terminal": False} if verbosity.is_quiet() else {}
        super().__init__(**{**options, **silent})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

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
    if verbosity.is_quiet():
        warnings = logging.StreamHandler()
        warnings.setLevel(logging.WARNING)
        return warnings
    if console.is_terminal:
        return RichHandler(console=console, show_path=False, show_level=False, log_time_format="%X")
    plain = _Lines(console.file)
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s" if verbosity.is_verbose() else "%(message)s"
    plain.setFormatter(logging.Formatter(form))
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


def memory_text(allocated: int | None, reserved: int | None, budget: int | None) -> str:
    """What is occupied, as far as it is known."""
    parts = [f"{size(allocated)} allocated"] if allocated else []
    parts += [f"{size(reserved)} reserved"] if reserved else []
    if parts and budget:
        parts[-1] += f" of {size(budget)}"
    return ", ".join(parts)


def short_memory(allocated: int | None, reserved: int | None, budget: int | None) -> str:
    """The same in a few letters: what is known of the three, in this order."""
    known = [count for count in (allocated, reserved, budget) if count] if allocated or reserved else []
    return f"{'/'.join(f'{count / 2**30:.2f}' for count in known)} GiB" if known else ""


def show_summary(console: Console, outcome: Mapping[str, Any], places: Mapping[str, Path]) -> None:
    """What result.json says of a training, in a few lines, and where more is."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _summary(outcome):
        table.add_row(name, Text(value))
    console.print(table)
    for name, place in places.items():
        console.print(Text(f"{name}: {place}"), soft_wrap=True)  # in one piece, to be copied


def _summary(outcome: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    best, peaks = outcome["best"], outcome["peak_bytes"]
    if best["value"] is not None:
        yield f"best {best['metric']}", f"{best['value']:.4f} at step {best['step']} of {outcome['steps']}"
    for kind in ("allocated", "reserved"):
        found, predicted = peaks[kind], peaks["predicted"][kind]
        if found or predicted:
            yield f"peak {kind}", f"{size(found)}, predicted {size(predicted)}"
    if outcome["seconds_per_step"]:
        speed = f"{outcome['images_per_second']:.3g} images a second"
        yield "a step", f"{seconds(outcome['seconds_per_step'])}, {speed}, without waiting for data"


def class_table(metrics: Mapping[str, float]) -> str:
    """The metrics of each class as CSV, one row a class."""
    _, rows = by_class(metrics)
    kinds = list(next(iter(rows.values()), {}))
    lines = [["class", *kinds], *([label, *(str(row[kind]) for kind in kinds)] for label, row in rows.items())]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


class Display:
    """Progress of a training; a context manager that gives the terminal back.

    One line that moves where there is a terminal, else a line for each log interval. `memory` gives bytes
    allocated and reserved, and the budget. A narrow terminal has them in few letters, and no bar.
    """

    def __init__(
        self,
        console: Console,
        max_steps: int,
        start_step: int = 0,
        memory: Callable[[], Memory] = lambda: _UNKNOWN,
        split: str = "val",
    ):
        """`split`: the images that are evaluated."""
        self.max_steps, self.memory, self.split = max_steps, memory, split
        self._begun: float | None = None  # the evaluation
        self._told = 0.0  # its last line
        self._images = 0  # that are evaluated
        self._plain = not console.is_terminal or console.is_dumb_terminal
        self._narrow = not self._plain and console.width < _WIDE
        self._bars = Progress(
            TextColumn("{task.description}"),
            *([] if self._narrow else [BarColumn(bar_width=16)]),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            TimeRemainingColumn(),
            console=console,
            expand=True,
            disable=self._plain,
        )
        self._begin, self._start_step = time.monotonic(), start_step
        self._train = self._bars.add_task(
            "training", total=max_steps, completed=start_step, note="", visible=max_steps > 0
        )
        self._evaluate = self._bars.add_task("evaluating", total=None, visible=False, note="images")

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._bars.stop()
        except OSError:  # a terminal that is closed
            _silence()

    def stepped(self, step: int) -> None:
        log.debug("step %d/%d is done", step, self.max_steps)
        self._bars.update(self._train, completed=step)

    def trained(self, step: int, values: Mapping[str, float | None]) -> None:
        """Shows the numbers of a log interval."""
        texts = [f"{name} {value:.4g}" for name, value in values.items() if value is not None]
        memory = (short_memory if self._narrow else memory_text)(*self.memory())
        note = "  ".join([*texts, *filter(None, [memory])])
        self._bars.update(self._train, note=note)
        if self._plain:
            log.info("step %d/%d  %s  left %s", step, self.max_steps, note, self._left(step))

    def _left(self, step: int) -> str:
        """The time to the last step, at the pace so far, evaluations included."""
        pace = (time.monotonic() - self._begin) / max(1, step - self._start_step)
        return str(timedelta(seconds=round(pace * (self.max_steps - step))))

    def evaluating(self, done: int, total: int) -> None:
        """Images done, and how many there are; 0 where an evaluation begins, and again while one is at work."""
        now = time.monotonic()
        if done < self._images or self._begun is None:
            self._begun = self._told = now
        if done > self._images:
            log.debug("image %d/%d is evaluated", done, total)
        self._images = 0 if done == total else done
        self._bars.update(self._evaluate, completed=done, total=total, visible=done < total)
        if self._plain and done < total and now - self._told > SECONDS:
            self._told = now
            left = f", {timedelta(seconds=round((now - self._begun) * (total / done - 1)))} left" if done else ""
            log.info("evaluating %s: %d/%d images%s", self.split, done, total, left)
        if done == total:
            self._begun = None

    def evaluated(self, step: int, metric: str, value: float) -> None:
        log.info("step %d/%d  evaluated: %s %.4f", step, self.max_steps, metric, value)
