"""The log of a run in a file, which may fail without harm."""

import logging
from pathlib import Path

from hires.engine.files import Lines

log = logging.getLogger(__name__)


class FileLog(logging.Handler):
    """Writes each record as a line; those that cannot be written wait until they can, which is told once."""

    def __init__(self, path: Path):
        super().__init__()
        self.lines = Lines(path)
        self.lines.write()  # an empty log where nothing is said

    def emit(self, record: logging.LogRecord) -> None:
        before = self.lines.error
        try:
            self.lines.add(self.format(record))
        except Exception:
            self.handleError(record)
        if self.lines.error and not before:
            log.error("%s: cannot be written (%s)", self.lines.path, self.lines.error.strerror)

    def close(self) -> None:
        if self.lines.waiting:
            self.lines.write()
        super().close()
