"""How far a prediction is, and how fast: one line in a terminal, elsewhere a line now and then."""

import logging
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

log = logging.getLogger(__name__)

_SECONDS = 10  # between two lines where there is no terminal


class PredictionProgress:
    """Progress over `total` images; a context manager that gives the terminal back."""

    def __init__(self, console: Console, total: int):
        columns = (BarColumn(bar_width=16), TextColumn("{task.fields[note]}"))
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self._bar = self._bars.add_task("predicting", total=total, note=f"0/{total} images")
        self._plain = not console.is_terminal
        self._begin = self._told = time.perf_counter()
        self.total, self.done, self.predicted, self.megapixels = total, 0, 0, 0.0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    @property
    def seconds(self) -> float:
        """Since the progress was made."""
        return time.perf_counter() - self._begin

    def skipped(self, count: int) -> None:
        """So many images need not be predicted."""
        self.done += count

    def within(self, share: float, megapixels: float) -> None:
        """So much of the image that is at work is done."""
        self._show(share, share * megapixels)

    def finished(self, megapixels: float | None) -> None:
        """An image is done, or has failed where it has no pixels that count."""
        self.done += 1
        if megapixels is not None:
            self.predicted += 1
            self.megapixels += megapixels
        self._show(0.0, 0.0)

    def _show(self, share: float, megapixels: float) -> None:
        note = self.note(share, megapixels)
        self._bars.update(self._bar, completed=self.done + share, note=note)
        now = time.perf_counter()
        if self._plain and now - self._told > _SECONDS:
            self._told = now
            log.info("predicted %s", note)

    def note(self, share: float = 0.0, megapixels: float = 0.0) -> str:
        """Images, rates and the time left."""
        seconds, done = max(self.seconds, 1e-9), self.predicted + share
        rates = f"{done / seconds:.3g} images/s  {(self.megapixels + megapixels) / seconds:.3g} Mpx/s"
        rest = self.total - self.done - share
        left = f"  {_clock(rest * seconds / done)} left" if done > 0 and rest > 0 else ""
        return f"{self.done}/{self.total} images  {rates}{left}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{int(seconds):02}"
