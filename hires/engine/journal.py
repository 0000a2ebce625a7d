"""What a run writes about itself: metrics.jsonl and what the loggers make of it."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from hires.engine.files import jsonable, write_text


class Logger(Protocol):
    """A subset of Fabric's loggers."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None: ...


class Journal:
    """Writes each record as one line of metrics.jsonl and passes its numbers on to the loggers."""

    def __init__(self, path: Path, loggers: list[Logger]):
        self.path, self.loggers = path, loggers

    def record(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Adds a line: `kind` is train or evaluate."""
        line = {"kind": kind, "step": step, "time": round(time.time(), 3), **values}
        with open(self.path, "a") as file:
            file.write(json.dumps(jsonable(line)) + "\n")
        numbers = {f"{kind}/{k}": v for k, v in values.items() if isinstance(v, (int, float)) and v == v}
        for logger in self.loggers:
            logger.log_metrics(numbers, step=step)

    def rewind(self, step: int) -> None:
        """Drops the lines after a step, and a last line that was cut off: the run continues from there."""
        if self.path.exists():
            lines = self.path.read_text().splitlines()
            write_text(self.path, "".join(f"{line}\n" for line in lines if _is_before(line, step)))

    def close(self) -> None:
        for logger in self.loggers:
            getattr(logger, "save", lambda: None)()
            getattr(logger, "finalize", lambda status: None)("success")


class NoJournal:
    """Of a process that writes nothing."""

    def record(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        pass

    def rewind(self, step: int) -> None:
        pass

    def close(self) -> None:
        pass


def _is_before(line: str, step: int) -> bool:
    try:
        return json.loads(line)["step"] <= step
    except (ValueError, KeyError, TypeError):
        return False
