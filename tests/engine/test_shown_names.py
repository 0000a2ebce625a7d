"""Names from outside cannot steer the terminal that shows them."""

import io
import logging
import re

import pytest
from rich.table import Table
from rich.text import Text

from hires.cli.job import reported
from hires.engine.display import Terminal, log_to
from hires.ops.printable import printable

NAME = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\rb.png"
SHOWN = "a\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202egnp.exe\\rb.png"


@pytest.fixture
def hires_log():
    yield logging.getLogger("hires.test")
    for handler in list(logging.getLogger("hires").handlers):
        handler.close()


def test_what_steers_is_written_out_and_all_else_stays():
    assert printable(NAME) == SHOWN
    for text in ("Größe 图像 été.png", "a\tb\nc", "e\u0301 \u200d \U0001f600", ""):
        assert printable(text) == text
    assert printable("a\udcff") == "a\\udcff"  # a name that is not UTF-8


def test_an_error_is_one_harmless_line(capsys):
    reported(ValueError(), f"{NAME}\n: no\x1b[1mimage", 1)
    assert capsys.readouterr().err == f"{SHOWN.replace(chr(92) + 'r', ' ')} : no\\x1b[1mimage\n"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_log(hires_log, tmp_path, is_terminal):
    console = Terminal(file=io.StringIO(), force_terminal=is_terminal, width=300, no_color=True, highlight=False)
    log_to(console, tmp_path / "train.log")
    hires_log.info("%s: %d", NAME, 3)
    assert f"{SHOWN}: 3" in re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())
    assert f"{SHOWN}: 3" in (tmp_path / "train.log").read_text()
    assert not {"\x07", "\x9b", "\u202e"} & set(console.file.getvalue())


def test_tables_keep_their_colours_and_nothing_else():
    console = Terminal(file=io.StringIO(), force_terminal=True, width=300, color_system="standard")
    table = Table()
    table.add_row(Text(NAME, style="bold"))
    console.print(table)
    console.print(Text(NAME))
    written = console.file.getvalue()
    assert "\x1b[1m" in written
    assert written.count("a\\x1b]0;owned") == 2
    assert not {"\x07", "\x9b", "\u202e"} & set(written)
    assert "\x1b[2J" not in written
