"""A terminal that is closed while a training shows its progress there."""

import errno
import io

from hires.engine import display
from hires.engine.display import Display, Terminal


class Closable(io.StringIO):
    closed_by_user = False

    def write(self, text: str) -> int:
        if self.closed_by_user:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


def test_what_ended_the_training_is_not_lost(monkeypatch):
    silenced = []
    monkeypatch.setattr(display, "_silence", lambda: silenced.append(True))
    file = Closable()
    with Display(Terminal(file=file, force_terminal=True), 3) as shown:
        shown.stepped(1)
        file.closed_by_user = True
    assert silenced
