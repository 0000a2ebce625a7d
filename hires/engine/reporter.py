"""Tells how a training goes: to the journal, and to the terminal."""

from collections.abc import Callable

from hires.engine.display import Display
from hires.engine.journal import Journal, NoJournal


class Reporter:
    """Passes the numbers of the loop to the journal and the display.

    `learning_rate` gives the current one, `skipped` the number of updates of the run that were skipped.
    """

    def __init__(
        self,
        *,
        journal: Journal | NoJournal,
        display: Display,
        learning_rate: Callable[[], float],
        skipped: Callable[[], int] = lambda: 0,
    ):
        self.journal, self.display = journal, display
        self.learning_rate, self.skipped = learning_rate, skipped

    def stepped(self, step: int) -> None:
        self.display.stepped(step)

    def trained(self, step: int, losses: dict[str, float], seconds: float | None, batch_size: int) -> None:
        """Means over a log interval, no losses if no update was done; `seconds` are those of one step."""
        loss, rate = sum(losses.values()) if losses else None, self.learning_rate()
        speed = batch_size / seconds if seconds else None
        parts = {f"loss/{name}": value for name, value in losses.items()}
        numbers = {"loss": loss, **parts, "lr": rate, "skipped": self.skipped()}
        numbers |= {"seconds_per_step": seconds, "images_per_second": speed}
        self.journal.record("train", step, numbers)
        self.display.trained(step, {"loss": loss, "lr": rate, "images/s": speed})

    def evaluated(self, step: int, metrics: dict[str, float], metric: str) -> None:
        self.journal.record("evaluate", step, metrics)
        self.display.evaluated(step, metric, metrics[metric])
