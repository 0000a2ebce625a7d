"""What a run writes about itself: metrics.jsonl and what the loggers make of it."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hires.engine.files import Lines, jsonable, write_text
from hires.engine.loggers import Lenient, Logger, Record

log = logging.getLogger(__name__)


class Journal:
    """Writes each record as one line of metrics.jsonl and passes its numbers on to the loggers.

    A part of a checkpoint, which thus knows the records that it goes on from. None of it ends a training: records
    that cannot be written wait until they can.
    """

    def __init__(self, path: Path, loggers: Sequence[Logger]):
        self.path, self.loggers = path, [Lenient(logger) for logger in loggers]
        self.lines = Lines(path)
        self.count = 0  # of the records so far, also those that wait
        self._restored: int | None = None
        self._closed = False

    def record(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Adds a line: `kind` is train or evaluate."""
        record = {"kind": kind, "step": step, "time": round(time.time(), 3), **values}
        before = self.lines.error
        self.lines.add(json.dumps(jsonable(record)))
        self.count += 1
        if self.lines.error and not before:
            reason = self.lines.error.strerror
            log.error("%s: cannot be written (%s); its records wait until it can", self.path, reason)
        if before and not self.lines.error:
            log.info("%s: written again%s", self.path, self._lost)
        for logger in self.loggers:
            if not logger.failing:
                logger.log(record)
            elif not self.lines.error:
                logger.catch_up(record, lambda: records(self.path))

    def state_dict(self) -> dict[str, Any]:
        """How many records there are; they are on disk before a checkpoint that counts on them."""
        self.lines.flush()
        return {"records": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._restored = state["records"]

    def rewind(self, step: int) -> None:
        """Drops the lines that the checkpoint does not know, and a last one that was cut off: the run continues
        from there. Of a checkpoint without a count the lines after its step are dropped."""
        if not self.path.is_file():
            return
        found = records(self.path)
        kept = [r for r in found if r["step"] <= step] if self._restored is None else found[: self._restored]
        if self._restored is not None and len(kept) < self._restored:
            log.warning("%s: lacks %d records up to step %d", self.path, self._restored - len(kept), step)
        text = "".join(f"{json.dumps(record)}\n" for record in kept)
        if text != self.path.read_text(errors="replace"):
            write_text(self.path, text)
        self.count = len(kept)
        for logger in self.loggers:
            logger.restart(kept, step)

    def close(self) -> None:
        """Leaves all on disk; once."""
        if self._closed:
            return
        self._closed = True
        if self.lines.waiting:
            self.lines.write()
        if self.lines.waiting:
            log.error("%s: %d records could not be written%s", self.path, self.lines.waiting, self._lost)
        for logger in self.loggers:
            logger.close()

    @property
    def _lost(self) -> str:
        return f"; {self.lines.lost} records are lost" if self.lines.lost else ""


class NoJournal:
    """Of a process that writes nothing."""

    def record(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        pass

    def state_dict(self) -> None:
        return None

    def load_state_dict(self, state: Any) -> None:
        pass

    def rewind(self, step: int) -> None:
        pass

    def close(self) -> None:
        pass


def records(path: Path) -> list[Record]:
    """The records of a file; other lines are left out."""
    found: list[Record] = []
    if not path.is_file():
        return found
    for line in path.read_text(errors="replace").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int) and "kind" in record:
            found.append(record)
    return found
